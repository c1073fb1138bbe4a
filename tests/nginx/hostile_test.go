package nginx

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// C049: the spellings of a path are one path, in one bucket; another case of letters is another path.
func TestSpellingsOfAPathShareItsBucket(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.login]
		match     = { path = "/login" }
		key       = ["ip", "path"]
		algorithm = "fixed_window"
		rate      = "3/366d"`})
	spellings := []string{"/login", "//login", "/./login", "/%6cogin", "/login/", "/login?x=1", "/a/../login",
		"/%2e/login", "/login#x", "/login;", "/LOGIN", "/%256cogin", "/login%2f", "/x/..//login/."}
	want := "200 200 200 429 429 429 429 429 429 200 200 200 429 429"
	var got []string
	for _, target := range spellings {
		got = append(got, fmt.Sprint(s.Send(t, "GET "+target, "").Status))
	}
	if text := strings.Join(got, " "); text != want {
		t.Errorf("%v:\n%s, want\n%s", spellings, text, want)
	}
	if got := s.Counted(t, "authz:v1:{ip=127.0.0.1|path=/login}:login:fw"); got != 3 {
		t.Errorf("%d charged, want 3", got)
	}
	if got := s.SendAll(t, 1, "GET http://site.test/login"); got != "429" {
		t.Errorf("a full URL as target: %s, want 429", got)
	}
}

// C032, C033, C056, R14: what a client says of itself is not believed.
func TestAClientCannotBeSomebodyElse(t *testing.T) {
	forged := []string{"X-Forwarded-For: 203.0.113.%d", "X-Real-IP: 203.0.113.%d", "Forwarded: for=203.0.113.%d",
		"X-Original-URI: /%d", "X-Original-URL: http://other.test/%d", "X-Original-Method: OPTIONS%d", "X-Original-Host: h%d.test",
		"X-Forwarded-Host: h%d.test", "X-Authz-Zone: z%d", "X-Authz-Status: 20%d", "X_Real_IP: 203.0.113.%d"}
	limits := strings.Replace(onceOnly, "key       = [\"ip\"]", "match = { zone = \"here\", host = \"site.test\", path = \"/a\" }\nkey = [\"ip\"]", 1)
	conf := rig.SiteConf{Limits: limits, Server: `
		include authz/authz_server.conf;
		location / { set $authz_zone here; proxy_pass http://app; }`}
	s := rig.StartSite(t, conf)
	for i, header := range forged {
		want := 429
		if i == 0 {
			want = 200
		}
		if got := s.Send(t, "GET /a", "", fmt.Sprintf(header, i)).Status; got != want {
			t.Errorf("%s: %d, want %d", header, got, want)
		}
	}
	if got := strings.Join(s.Keys(t), " "); got != "authz:v1:{ip=127.0.0.1}:once:fw" {
		t.Errorf("charged: %s, want the client's own address alone", got)
	}

	// Behind a balancer: the rightmost address that is not trusted, whatever stands left of it.
	conf.Server += `
		set_real_ip_from 127.0.0.1;
		real_ip_header X-Forwarded-For;
		real_ip_recursive on;`
	s = rig.StartSite(t, conf)
	for i, want := range []int{200, 429, 429} {
		got := s.Send(t, "GET /a", "", fmt.Sprintf("X-Forwarded-For: 198.51.100.%d, 203.0.113.9", i)).Status
		if got != want {
			t.Errorf("request %d through a balancer: %d, want %d", i+1, got, want)
		}
	}
	if got := strings.Join(s.Keys(t), " "); got != "authz:v1:{ip=203.0.113.9}:once:fw" {
		t.Errorf("charged: %s, want the address that the balancer saw", got)
	}
}

// C056: the check itself is out of reach, in any spelling, and charges nobody.
func TestTheCheckIsOutOfReach(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Limits: onceOnly, Server: rig.ClosedServer})
	for protocol, send := range s.Both() {
		for _, target := range []string{"/_authz", "/_authz?x=1", "//_authz", "/%5fauthz", "/./_authz", "/a/../_authz"} {
			got := send(t, "GET "+target, "", "X-Original-Method: GET", "X-Original-URI: /", "X-Real-IP: 203.0.113.9")
			if got.Status != 404 {
				t.Errorf("%s over %s: %d, want 404", target, protocol, got.Status)
			}
		}
	}
	if got := s.Keys(t); len(got) != 0 {
		t.Errorf("charged: %s, want nothing", got)
	}
	if got := s.App.Asked.Load(); got != 0 {
		t.Errorf("the application was asked %d times, want never", got)
	}
}

// C055: of `X-API-Key` and `X_API_KEY` only the one with hyphens counts.
func TestOnlyTheHyphenFormOfAHeaderCounts(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.plan]
		key       = ["header:X-API-Key"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "2/366d"`})
	for i, want := range []int{200, 200, 429} {
		if got := s.Send(t, "GET /", "", "X-API-Key: one", fmt.Sprintf("X_API_KEY: other%d", i)).Status; got != want {
			t.Errorf("with both, request %d: %d, want %d", i+1, got, want)
		}
	}
	for i, want := range []int{200, 200, 429} {
		if got := s.Send(t, "GET /", "", fmt.Sprintf("x_api_key: other%d", i)).Status; got != want {
			t.Errorf("with underscores alone, request %d: %d, want %d", i+1, got, want)
		}
	}
	if got := len(s.Keys(t)); got != 2 {
		t.Errorf("%d buckets, want 2: of the key, and of those without", got)
	}
}

// C024: an ordinary user's large cookies get an ordinary decision, and count.
func TestLargeHeadersAreUnderstood(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.session]
		key       = ["cookie:session", "header:X-API-Key"]
		missing   = "deny"
		algorithm = "fixed_window"
		rate      = "1/366d"`})
	for _, size := range []int{10, 3500, 5000, 7900} {
		cookie := "Cookie: fill=" + strings.Repeat("x", size-10) + fmt.Sprintf("; session=%d", size)
		key := "X-API-Key: " + strings.Repeat("k", size)
		for i, send := range []rig.Sender{s.Send, s.SendH2} {
			want := []int{200, 429}[i]
			if got := send(t, "GET /", "", cookie, key).Status; got != want {
				t.Errorf("%d bytes over HTTP/%d: %d, want %d", size, i+1, got, want)
			}
		}
	}
	if got := len(s.Keys(t)); got != 4 {
		t.Errorf("%d buckets, want 4", got)
	}
}

// Headers of the site's own reach the limits through one file.
func TestAHeaderOfTheSitesOwnCanBeAKey(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Server: rig.ClosedServer,
		Limits: `
			[limit.tenant]
			key       = ["header:X-Tenant"]
			missing   = "deny"
			algorithm = "fixed_window"
			rate      = "1/366d"`,
		Files: map[string]string{"authz/site_check.conf": "proxy_set_header X-Tenant $http_x_tenant;"},
	})
	for _, c := range []struct{ header, want string }{
		{"X-Tenant: a", "200"},
		{"X-Tenant: a", "429 X-Authz-Limit=tenant"},
		{"X-Tenant: b", "200"},
		{"X-Other: a", "403"},
	} {
		if got := s.Send(t, "GET /", "", c.header).Show("X-Authz-Limit"); got != c.want {
			t.Errorf("%s: %s, want %s", c.header, got, c.want)
		}
	}
}

// nginx before 1.23 knows only the first of several lines of one name; the application gets them all.
// It is of one mind with authz when it is handed what authz was handed.
func TestOfTwoLinesOfAHeaderTheFirstCounts(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Server: `
			include authz/authz_server.conf;
			location /     { proxy_pass http://app; }
			location /same { proxy_set_header X-API-Key $http_x_api_key; proxy_pass http://app; }`,
		Limits: `
			[limit.plan]
			key       = ["header:X-API-Key"]
			missing   = "deny"
			algorithm = "fixed_window"
			rate      = "1/366d"`,
	})
	for i, c := range [][2]string{
		{"/?echo=X-Api-Key", `200 app GET /?echo=X-Api-Key 0 bytes ["0" "paid"]`},
		{"/same?echo=X-Api-Key", `200 app GET /same?echo=X-Api-Key 0 bytes ["1"]`},
	} {
		for _, want := range []string{c[1], "429 "} {
			got := s.Send(t, "GET "+c[0], "", fmt.Sprintf("X-API-Key: %d", i), "X-API-Key: paid")
			if text := got.Show() + " " + got.Body; !strings.HasPrefix(text, want) {
				t.Errorf("%s: %s, want %s", c[0], text, want)
			}
		}
	}
}
