package openresty

import (
	"fmt"
	"testing"

	"authz/tests/rig"
)

// What nginx itself refuses before it knows a target ends on the site's own page, as without authz: the
// access phase of an error_page is the first that Lua sees of such a request. Nobody is charged.
func TestARequestThatNginxCannotReadGetsTheSitesOwnPage(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{
		Limits: `
			[limit.one]
			key = []
			algorithm = "fixed_window"
			rate = "1/366d"`,
		Server: `
			root html;
			error_page 400 405 494 /broken.html;
			location / { proxy_pass http://app; }
			location = /broken.html { }`,
		Files: map[string]string{"html/broken.html": "so broken"},
	})
	const host = " HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
	for _, text := range []string{
		"GET /%zz" + host, "GET /../.." + host, "GET /%00" + host, "get /" + host, "CONNECT a:1" + host, "OPTIONS *" + host,
		"GET foo" + host, "GET /a b" + host, "GET /a\tb" + host, "GET /a\x7fb" + host, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		got := s.SendRaw(t, text)
		rig.Same(t, fmt.Sprintf("%q %d %s", text, got.Status, got.Body), fmt.Sprintf("%q %d %s", text, 400, "so broken"))
	}
	rig.Same(t, fmt.Sprint(s.Asked(t)), "0")
	rig.Same(t, s.Metric(t, `authz_requests_total{verdict="admitted"}`), "0")
	rig.Same(t, s.SendAll(t, 2, "GET /"), "200 429")
}
