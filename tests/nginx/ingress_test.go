package nginx

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// ingressNginx is a site as ingress-nginx writes it: every header of the client is handed on, but for those that the
// auth location sets.
func ingressNginx(authURL string) string {
	return `
		location = /_external-auth {
			internal;
			proxy_pass_request_body off;
			proxy_set_header Content-Length "";
			proxy_set_header X-Forwarded-Proto "";
			proxy_set_header Host authz.limits.svc;
			proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
			proxy_set_header X-Original-Method $request_method;
			proxy_set_header X-Sent-From "nginx-ingress-controller";
			proxy_set_header X-Real-IP $remote_addr;
			proxy_set_header X-Forwarded-For $remote_addr;
			proxy_set_header X-Auth-Request-Redirect $request_uri;
			proxy_http_version 1.1;
			set $target http://authz` + authURL + `;
			proxy_pass $target;
		}
		location / { auth_request /_external-auth; proxy_pass http://app; }`
}

// includesElsewhere is a server with the shipped includes, which http{} needs once they are in it.
const includesElsewhere = "server { include authz/authz_server.conf; listen LISTEN; server_name other.test; }"

const ingressLimits = `
	[allow.probes]
	match = { path = "/healthz" }
	[allow.internal]
	match = { zone = "internal" }
	[allow.self]
	match = { ip = "192.0.2.1" }
	[limit.api]
	match     = { path = "/v1/**", host = "site.test", method = "POST", zone = "web" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "1/366d"
	[limit.byzone]
	match     = { path = "/v2/**", zone = "web" }
	key       = ["zone"]
	missing   = "skip"
	algorithm = "fixed_window"
	rate      = "1/366d"
	[limit.byhost]
	match     = { path = "/v3/**", host = "site.test" }
	key       = ["host"]
	algorithm = "fixed_window"
	rate      = "1/366d"`

// No header of a client opens a limit behind ingress-nginx, whatever it forges.
func TestAClientBehindIngressNginxOpensNoLimit(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Limits: ingressLimits, Server: ingressNginx("/ingress?zone=web"), Http: includesElsewhere})
	if got := s.SendAll(t, 3, "POST /v1/items?x=1"); got != "200 403 403" {
		t.Errorf("an honest client: %s, want 200 403 403", got)
	}
	for _, forged := range []string{"X-Original-URI: /healthz", "X-Original-URL: http://site.test/healthz",
		"X-Original-Method: GET",
		"X-Original-Host: other.test", "X-Authz-Zone: internal", "X-Real-IP: 192.0.2.1", "X-Forwarded-For: 192.0.2.1",
		"X-Forwarded-Host: other.test", "X-Forwarded-Uri: /healthz", "X-Forwarded-Method: GET", "Forwarded: for=192.0.2.1",
		"X-Authz-Status: 200", "X_Original_URL: http://site.test/healthz", "Connection: X-Original-URL, X-Real-IP"} {
		if got := s.SendAll(t, 2, "POST /v1/items", forged); got != "403 403" {
			t.Errorf("%s: %s, want 403 403", forged, got)
		}
	}
	hosts := []string{"site.test:80", "site.test:1:2", "site.test::", "site.test:x:y", "site.test.", "SITE.test.:80"}
	for _, host := range hosts {
		if got := s.SendAll(t, 1, "POST /v1/items", "Host: "+host); got != "403" {
			t.Errorf("Host: %s: %s, want 403", host, got)
		}
	}
	if got := strings.Join(s.Keys(t), " "); got != "authz:v1:{ip=127.0.0.1}:api:fw" {
		t.Errorf("charged: %s, want the client's own address alone", got)
	}
}

// ingress-nginx serves the host of a full URL in the request line, and names to authz that of the Host header. A limit
// by host can be evaded so, a limit by zone cannot: nginx/README.md says to name the site by its zone.
func TestAZoneNamesTheSiteBehindIngressNginx(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Limits: ingressLimits, Server: ingressNginx("/ingress?zone=web"), Http: includesElsewhere})
	for _, c := range [][2]string{{"/v2/a", "200 403 403"}, {"/v3/a", "200 200 200"}} {
		if got := s.SendAll(t, 3, "GET http://site.test"+c[0], "Host: free.test"); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// A check of ingress-nginx at the route for nginx lets nobody in, and the log names the right route.
func TestIngressNginxAtTheWrongRouteIsToldOfItsOwn(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Limits: ingressLimits, Server: ingressNginx("/nginx"), Http: includesElsewhere})
	for _, header := range []string{"X-API-Key: k", "X-Original-URI: /healthz", "X-Authz-Zone: internal"} {
		if got := s.SendAll(t, 1, "POST /v1/items", header); got != "403" {
			t.Errorf("%s: %s, want 403", header, got)
		}
	}
	s.Authz.Await(t, `level=WARN msg="request blocked: its header is another proxy's" route=/nginx header=X-Original-URL `+
		`cure="want /ingress, the route for ingress-nginx"`)
	const counter = `authz_flawed_requests_total{kind="wrong_route"}`
	if got, want := s.Authz.Metrics(t, counter), counter+" 3\n"; got != want {
		t.Errorf("metrics: %swant %s", got, want)
	}
}

// Clients on a unix socket share one bucket, over TCP to authz and over a socket: no rule for nginx's own address lets
// them in. With set_real_ip_from unix: each has a bucket of its own.
func TestClientsOnAUnixSocketAreNotNginx(t *testing.T) {
	const limits = `
		[allow.self]
		match = { ip = ["127.0.0.0/8", "::1"] }
		[limit.one]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/366d"`
	for _, tcp := range []bool{true, false} {
		for _, c := range []struct{ realIP, want, keys string }{
			{"", "200 429 429", "authz:v1:{ip=unknown}:one:fw"},
			{"set_real_ip_from 10.0.0.0/8;", "200 429 429", "authz:v1:{ip=unknown}:one:fw"},
			{"set_real_ip_from unix:;", "200 200 429", "authz:v1:{ip=203.0.113.1}:one:fw authz:v1:{ip=203.0.113.2}:one:fw"},
		} {
			socket := rig.SocketDir(t) + "/site.sock"
			server := rig.ClosedServer + "listen unix:" + socket + ";" + c.realIP
			s := rig.StartSite(t, rig.SiteConf{Limits: limits, Tcp: tcp, Server: server})
			s.Addr = "unix:" + socket
			var got []string
			for _, client := range []int{1, 2, 2} {
				header := fmt.Sprintf("X-Real-IP: 203.0.113.%d", client)
				got = append(got, fmt.Sprint(s.Send(t, "GET /", "", header).Status))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("tcp %v, %q: %s, want %s", tcp, c.realIP, text, c.want)
			}
			if got := strings.Join(s.Keys(t), " "); got != c.keys {
				t.Errorf("tcp %v, %q: charged %s, want %s", tcp, c.realIP, got, c.keys)
			}
			if c.want != "200 429 429" {
				continue
			}
			s.Authz.Await(t, `level=WARN msg="the address of a client cannot be read; it counts as ip=unknown" address=unix: `+
				`cure="nginx listens on a unix socket: set_real_ip_from unix: and real_ip_header name the client there"`)
			if got, want := s.Authz.Metrics(t, "authz_unreadable_ip_total"), "authz_unreadable_ip_total 3\n"; got != want {
				t.Errorf("metrics: %swant %s", got, want)
			}
		}
	}
}
