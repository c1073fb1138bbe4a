package tests

import (
	"strings"
	"testing"
)

// C012: the phases of Lua run again too, and the mark in $authz_status tells; the zone is that of the
// location where the request was when it was decided. Subrequests are part of their request.
func TestThePackChargesAClientRequestOnce(t *testing.T) {
	s := startPack(t, startRedis(t), "", siteConf{limits: redirectLimits, server: redirectServer, files: redirectFiles})
	s.sendRedirects(t)
	s.quit(t)
	log := s.read(t, "access.log")
	for _, row := range redirects {
		if line := row.target + " " + row.want[:3] + " 200 each \n"; strings.Count(log, line) != 2 {
			t.Errorf("access log has not twice %q:\n%s", line, log)
		}
	}
}

// The page of a refusal is reached by a redirect: it is not asked about, and keeps status and headers.
// Whoever calls check() and apply() gets the same as by access().
func TestARefusalMayHaveAPageOfItsOwn(t *testing.T) {
	for _, access := range []string{"authz.access()", "authz.apply(authz.check())"} {
		s := startPack(t, startRedis(t), "", siteConf{
			limits: `
				[limit.one]
				key = []
				algorithm = "fixed_window"
				rate = "1/366d"
				[deny.rule]
				match = { path = "/ruled" }`,
			server: `
				root html;
				error_page 429 /slow.html;
				error_page 403 = @no;
				location @no { internal; return 404 "never heard of it"; }
				location / { proxy_pass http://app; }
				location = /slow.html { }`,
			access: access,
			files:  map[string]string{"html/slow.html": "slow down"},
		})
		same(t, s.sendAll(t, 3, "GET /x"), "200 429 429")
		got := s.send(t, "GET /x", "")
		same(t, got.body, "slow down")
		same(t, got.show("X-Authz-Limit", "RateLimit-Policy"), `429 X-Authz-Limit=one RateLimit-Policy="one";q=1;w=31622400`)
		if got.header.Get("Retry-After") == "" {
			t.Error("the page has no Retry-After")
		}
		same(t, s.send(t, "GET /ruled", "").body, "never heard of it")
		if got := s.asked(t); got != 4 {
			t.Errorf("Redis decided %d requests, want 4", got)
		}
	}
}

// A client can neither set the mark nor ask for the location that declares it.
func TestNobodyCanSayThatTheyWereCharged(t *testing.T) {
	s := startPack(t, startRedis(t), "", siteConf{limits: `
		[limit.one]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"`})
	same(t, s.sendAll(t, 1, "GET /"), "200")
	for _, header := range []string{"X-Authz-Status: 200", "Authz-Status: 200", "authz_status: 200", "X-Authz-Zone: z"} {
		same(t, header+" "+s.sendAll(t, 1, "GET /?authz_status=200", header, "Cookie: authz_status=200"), header+" 429")
	}
	same(t, s.sendAll(t, 2, "GET /_authz_variables"), "404 404")
	same(t, s.sendAll(t, 1, "GET /"), "429")
}
