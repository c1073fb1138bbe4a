package openresty

import (
	"strings"
	"testing"

	"authz/tests/rig"
)

// C012: the phases of Lua run again too, and the mark in $authz_status tells; the zone is that of the
// location where the request was when it was decided. Subrequests are part of their request.
func TestThePackChargesAClientRequestOnce(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{Limits: rig.RedirectLimits, Server: rig.RedirectServer, Files: rig.RedirectFiles})
	s.SendRedirects(t)
	s.Quit(t)
	log := s.Read(t, "access.log")
	for _, row := range rig.Redirects {
		if line := row.Target + " " + row.Want[:3] + " 200 each \n"; strings.Count(log, line) != 2 {
			t.Errorf("access log has not twice %q:\n%s", line, log)
		}
	}
}

// The page of a refusal is reached by a redirect: it is not asked about, and keeps status and headers.
// Whoever calls check() and apply() gets the same as by access().
func TestARefusalMayHaveAPageOfItsOwn(t *testing.T) {
	for _, access := range []string{"authz.access()", "authz.apply(authz.check())"} {
		s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{
			Limits: `
				[limit.one]
				key = []
				algorithm = "fixed_window"
				rate = "1/366d"
				[deny.rule]
				match = { path = "/ruled" }`,
			Server: `
				root html;
				error_page 429 /slow.html;
				error_page 403 = @no;
				location @no { internal; return 404 "never heard of it"; }
				location / { proxy_pass http://app; }
				location = /slow.html { }`,
			Access: access,
			Files:  map[string]string{"html/slow.html": "slow down"},
		})
		rig.Same(t, s.SendAll(t, 3, "GET /x"), "200 429 429")
		got := s.Send(t, "GET /x", "")
		rig.Same(t, got.Body, "slow down")
		rig.Same(t, got.Show("X-Authz-Limit", "RateLimit-Policy"), `429 X-Authz-Limit=one RateLimit-Policy="one";q=1;w=31622400`)
		if got.Header.Get("Retry-After") == "" {
			t.Error("the page has no Retry-After")
		}
		rig.Same(t, s.Send(t, "GET /ruled", "").Body, "never heard of it")
		if got := s.Asked(t); got != 4 {
			t.Errorf("Redis decided %d requests, want 4", got)
		}
	}
}

// A client can neither set the mark nor ask for the location that declares it.
func TestNobodyCanSayThatTheyWereCharged(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{Limits: `
		[limit.one]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"`})
	rig.Same(t, s.SendAll(t, 1, "GET /"), "200")
	for _, header := range []string{"X-Authz-Status: 200", "Authz-Status: 200", "authz_status: 200", "X-Authz-Zone: z"} {
		rig.Same(t, header+" "+s.SendAll(t, 1, "GET /?authz_status=200", header, "Cookie: authz_status=200"), header+" 429")
	}
	rig.Same(t, s.SendAll(t, 2, "GET /_authz_variables"), "404 404")
	rig.Same(t, s.SendAll(t, 1, "GET /"), "429")
}
