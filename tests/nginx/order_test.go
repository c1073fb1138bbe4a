package nginx

import (
	"fmt"
	"testing"

	"authz/tests/rig"
)

const threeEach = `
	[limit.three]
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "3/366d"`

// C015: with `satisfy any` an allowed address is never checked, and a check that admits opens what
// `deny all` would have closed. The limits file's own `unless` and `satisfy all` do what was meant.
func TestSatisfyAnySkipsTheCheck(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: threeEach,
		Server: `
			include authz/authz_server.conf;
			location /any { satisfy any; allow 127.0.0.10; deny all; proxy_pass http://app; }
			location /all { satisfy all; allow 127.0.0.10; deny all; proxy_pass http://app; }`,
	})
	for _, c := range []struct {
		from, path, want string
		counted          int
	}{
		{"127.0.0.10", "/any", "200 200 200 200 200", 0},
		{"127.0.0.11", "/any", "200 200 200 429 429", 3},
		{"127.0.0.10", "/all", "200 200 200 429 429", 3},
		{"127.0.0.12", "/all", "403 403 403 403 403", 0},
	} {
		s.From = c.from
		if got := s.SendAll(t, 5, "GET "+c.path); got != c.want {
			t.Errorf("%s from %s: %s, want %s", c.path, c.from, got, c.want)
		}
		if got := s.Counted(t, "authz:v1:{ip="+c.from+"}:three:fw"); got != c.counted {
			t.Errorf("%s from %s: %d charged, want %d", c.path, c.from, got, c.counted)
		}
	}
}

// C016: limit_req comes first. What it refuses authz never sees, and what authz says comes too late
// for it.
func TestLimitReqComesFirst(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: `
			[limit.zone]
			match     = { zone = "*" }
			key       = ["zone"]
			missing   = "skip"
			algorithm = "fixed_window"
			rate      = "1000/366d"`,
		Http: `
			limit_req_status 429;
			limit_req_zone $binary_remote_addr zone=address:1m rate=1r/m;
			limit_req_zone $authz_limit        zone=answer:1m  rate=1r/m;`,
		Server: `
			include authz/authz_server.conf;
			location /address { set $authz_zone address; limit_req zone=address; proxy_pass http://app; }
			location /answer  { set $authz_zone answer;  limit_req zone=answer;  proxy_pass http://app; }`,
	})
	for _, c := range []struct {
		zone, want string
		counted    int
	}{
		{"address", "200 429 429 429 429", 1},
		{"answer", "200 200 200 200 200", 5},
	} {
		if got := s.SendAll(t, 5, "GET /"+c.zone); got != c.want {
			t.Errorf("%s: %s, want %s", c.zone, got, c.want)
		}
		if got := s.Counted(t, "authz:v1:{zone="+c.zone+"}:zone:fw"); got != c.counted {
			t.Errorf("%s: %d charged, want %d", c.zone, got, c.counted)
		}
	}
}

// auth_basic comes first too, so that wrong passwords are not counted; `return` in a location answers
// before there is a check.
func TestWhatAnswersBeforeTheCheckIsNotCounted(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: threeEach,
		Server: `
			include authz/authz_server.conf;
			location /basic  { auth_basic site; auth_basic_user_file passwords; proxy_pass http://app; }
			location /return { return 204; }
			location /       { proxy_pass http://app; }`,
		Files: map[string]string{"passwords": "ann:{PLAIN}secret\n"},
	})
	for _, c := range []struct{ line, header, want string }{
		{"GET /basic", "Authorization: Basic YW5uOndyb25n", "401 401 401 401"}, // ann:wrong
		{"GET /return", "Accept: */*", "204 204 204 204"},
		{"GET /basic", "Authorization: Basic YW5uOnNlY3JldA==", "200 200 200 429"}, // ann:secret
		{"GET /return", "Accept: */*", "204 204 204 204"},
	} {
		if got := s.SendAll(t, 4, c.line, c.header); got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.line, c.header, got, c.want)
		}
	}
}

// A server's own rewrites, if and set cannot get between nginx and the check while the include is the
// first line. Above it they can: this is the one mistake that opens everything.
func TestTheIncludeIsTheFirstLine(t *testing.T) {
	rewrites := `
		rewrite ^/_authz /open;
		if ($request_method = GET) { set $authz_zone forged; }
		if ($uri ~ ^/_) { return 204; }
		rewrite ^/(.*)$ /x/$1;`
	locations := `
		location /x/ { set $authz_zone real; proxy_pass http://app; }
		location /open { return 204; }`
	limits := `
		[limit.zone]
		match     = { zone = "real" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "3/366d"`
	first := rig.StartSite(t, rig.SiteConf{Limits: limits, Server: "include authz/authz_server.conf;" + rewrites + locations})
	if got := first.SendAll(t, 5, "GET /a"); got != "200 200 200 429 429" {
		t.Errorf("the include first: %s, want 200 200 200 429 429", got)
	}
	later := rig.StartSite(t, rig.SiteConf{Limits: limits, Server: rewrites + "include authz/authz_server.conf;" + locations})
	if got := later.SendAll(t, 5, "GET /a"); got != "200 200 200 200 200" {
		t.Errorf("the include after rewrites: %s; say in nginx/README.md what has become of the bypass", got)
	}
}

// R01: an auth location as ingress-nginx writes it works too, at /ingress: a full URL, all headers of the client,
// HTTP/1.0 with a connection each, and the length of a body that never comes (C006).
func TestAHandWrittenLocationWorksToo(t *testing.T) {
	for _, length := range []string{`proxy_set_header Content-Length "";`, ""} {
		s := rig.StartSite(t, rig.SiteConf{
			Limits: `
				[limit.three]
				match     = { host = "site.test", path = "/a/b", method = "POST" }
				key       = ["ip"]
				algorithm = "fixed_window"
				rate      = "3/366d"`,
			Http: "server { include authz/authz_server.conf; listen LISTEN; server_name other.test; }",
			Server: `
				location = /check {
					internal;
					proxy_pass http://authz/ingress;
					proxy_pass_request_body off;
					` + length + `
					proxy_set_header X-Original-URL    $scheme://$http_host$request_uri;
					proxy_set_header X-Original-Method $request_method;
					proxy_set_header X-Real-IP         $remote_addr;
				}
				location / { auth_request /check; proxy_pass http://app; }`,
		})
		for i, want := range []int{200, 200, 200, 403} {
			got := s.Send(t, "POST /a//b?c", "0123456789", fmt.Sprintf("X-Forwarded-For: 203.0.113.%d, 198.51.100.7", i))
			if got.Status != want {
				t.Errorf("%q: request %d: %d, want %d", length, i+1, got.Status, want)
			}
		}
		if got := s.Counted(t, "authz:v1:{ip=127.0.0.1}:three:fw"); got != 3 {
			t.Errorf("%q: %d charged to the address that nginx sees, want 3: %v", length, got, s.Keys(t))
		}
	}
}
