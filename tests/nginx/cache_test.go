package nginx

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"authz/tests/rig"
)

// No answer that one client gets reaches another through a cache in front: not a 429, 403 or 503, and not the RateLimit of an
// admitted client. The cache keeps whatever it may.
func TestNoClientGetsTheAnswerOfAnotherFromACache(t *testing.T) {
	front := func(port string) string {
		return `
			proxy_cache_path cache keys_zone=front:1m;
			server {
				listen LISTEN;
				location / {
					proxy_pass http://` + port + `;
					proxy_cache front;
					proxy_cache_key $uri;
					proxy_cache_valid any 1m;
					proxy_set_header X-Client $http_x_client;
					proxy_set_header Host site.test;
					add_header X-Cache $upstream_cache_status always;
				}
			}`
	}
	const realIP = "set_real_ip_from 127.0.0.1; real_ip_header X-Client;"
	const limits = `
		[limit.a]
		match     = { path = "/a" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/366d"
		[limit.free]
		match     = { path = "/free" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "5/366d"
		[limit.strict]
		match     = { path = "/strict" }
		key       = ["path:raw"]
		algorithm = "fixed_window"
		rate      = "5/366d"
		on_error  = "deny"
		[deny.x]
		match     = { path = "/x", ip = "203.0.113.1" }`
	site := rig.StartSite(t, rig.SiteConf{Tcp: true, Limits: limits, Server: rig.ClosedServer + realIP + `
		include authz/authz_ratelimit.conf;
		recursive_error_pages on; error_page 429 /busy.html;
		location = /busy.html { internal; root html; include authz/authz_refusal.conf; }`,
		Files: map[string]string{"html/busy.html": "busy"}})
	module := rig.StartPack(t, nil, `admitted_headers = true,`, rig.SiteConf{Limits: limits, Server: realIP + `location / { proxy_pass http://app; }`})
	for name, s := range map[string]*rig.NginxServer{"includes": site.NginxServer, "module": module.NginxServer} {
		cache := rig.StartNginx(t, front(s.Addr), nil, "")
		ask := func(path string, client int) string {
			a := cache.Send(t, "GET "+path, "", fmt.Sprintf("X-Client: 203.0.113.%d", client))
			return fmt.Sprint(a.Status, " ", a.Show("X-Cache", "RateLimit", "Cache-Control"))
		}
		check := func(path string, first, second string, clients ...int) {
			t.Helper()
			if got := ask(path, clients[0]); !strings.HasPrefix(got, first) {
				t.Errorf("%s: %s of client %d: %s, want %s", name, path, clients[0], got, first)
			}
			if got := ask(path, clients[1]); !strings.HasPrefix(got, second) || strings.Contains(got, "HIT") {
				t.Errorf("%s: %s of client %d: %s, want %s, not from the cache", name, path, clients[1], got, second)
			}
		}
		s.Send(t, "GET /a", "", "X-Client: 203.0.113.1")
		check("/a", "429", "200", 1, 2)
		check("/x", "403", "200", 1, 2)
		check("/free", "200", "200", 1, 2) // with a RateLimit that is the client's own
	}
	cache := rig.StartNginx(t, front(site.Addr), nil, "")
	site.Redis.Kill(t)
	if got := cache.Send(t, "GET /strict", "").Show("X-Cache", "Cache-Control"); got != "503 X-Cache=MISS Cache-Control=no-store" {
		t.Errorf("on_error = deny: %s, want a 503 that is not kept", got)
	}
	site.Authz.Cmd.Process.Kill()
	<-site.Authz.Exited
	for range 2 {
		if got := cache.Send(t, "GET /gone", "").Show("X-Cache", "Cache-Control"); got != "503 X-Cache=MISS Cache-Control=no-store" {
			t.Errorf("authz is dead: %s, want a 503 that is not kept", got)
		}
	}
}

// The application's own Cache-Control stays beside the one for a RateLimit.
func TestAnAdmittedAnswerIsPrivateOnlyWithARateLimit(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Limits: tenAMinute + "\n[allow.free]\nmatch = { path = \"/free\" }\n",
		Server: rig.ClosedServer + "include authz/authz_ratelimit.conf;"})
	for path, want := range map[string]string{"/a?set=Cache-Control:no-store": "200 Cache-Control=no-store Cache-Control=private",
		"/a": "200 Cache-Control=private", "/free": "200", "/free?set=Cache-Control:max-age=5": "200 Cache-Control=max-age=5"} {
		if got := s.Send(t, "GET "+path, "").Show("Cache-Control"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// A balancer that answers the check with 502, 503 or 504 stands before a dead authz: closed is 503, open lets the request
// pass, and no client sees a 500. Any other answer lets nobody in but a 2xx, which nginx takes for authz's own.
func TestABalancerThatAnswersForADeadAuthz(t *testing.T) {
	status := 0
	balancer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
		fmt.Fprint(w, "a page of the balancer's")
	}))
	t.Cleanup(balancer.Close)
	for _, choice := range choices {
		s := rig.StartSite(t, rig.SiteConf{Limits: tenAMinute, Server: choice.server,
			Upstream: "upstream authz { server " + strings.TrimPrefix(balancer.URL, "http://") + "; keepalive 4; }"})
		s.MayLog = []string{"unexpected status"}
		for _, status = range []int{502, 503, 504} {
			for _, line := range []string{"GET /", "POST /a"} {
				if got := s.Send(t, line, "").Show("Retry-After"); got != choice.want {
					t.Errorf("%s, %d, %s: %s, want %s", choice.name, status, line, got, choice.want)
				}
			}
		}
		for _, status = range []int{400, 401, 403, 404, 429, 500} {
			if got := s.Send(t, "GET /", "").Status; got < 400 {
				t.Errorf("%s, %d: %d, want the request refused", choice.name, status, got)
			}
		}
	}
}
