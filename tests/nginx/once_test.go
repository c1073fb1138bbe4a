package nginx

import (
	"strings"
	"testing"

	"authz/tests/rig"
)

// C012: nginx runs auth_request again after an internal redirect. Each row is a way that it goes: how
// often it was asked for, and what was charged, is the same. The log shows that what authz had said
// outlives the redirects.
func TestAClientRequestIsChargedOnce(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: rig.RedirectLimits,
		Http:   `log_format captured '$request_uri authz=$authz_status limit=$authz_limit left=$authz_ratelimit';`,
		Server: `
			include authz/authz_server.conf;
			access_log access.log captured;` + rig.RedirectServer,
		Files: rig.RedirectFiles,
	})
	s.SendRedirects(t)

	s.Quit(t)
	log := s.Read(t, "access.log")
	for _, row := range rig.Redirects {
		captured := row.Target + ` authz=200 limit=each left=\x22each\x22;r=`
		if strings.Count(log, captured) != 2 {
			t.Errorf("access log has not twice %q:\n%s", captured, log)
		}
	}
}

// C012: ten requests to / with a limit of 10 are ten, not five.
func TestTenRequestsForTheIndexAreTen(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: `
			[limit.each]
			key       = []
			algorithm = "fixed_window"
			rate      = "10/366d"`,
		Server: `include authz/authz_server.conf; root html;`,
		Files:  map[string]string{"html/index.html": "the index"},
	})
	if got, want := s.SendAll(t, 11, "GET /"), strings.Repeat("200 ", 10)+"429"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := s.Counted(t, "authz:v1:{each}:each:fw"); got != 10 {
		t.Errorf("%d charged, want 10", got)
	}
}
