package nginx

import (
	"fmt"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

// The host of a limit is the host that nginx serves, however a client spells it; what nginx refuses, authz refuses too.
func TestAHostIsTheOneThatNginxServes(t *testing.T) {
	set := rig.Compile(t, "[limit.a]\nkey = [\"host\"]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\nmissing = \"share\"\n")
	keyOf := func(host string) string {
		var m limits.Match
		set.Match(&limits.Attrs{Host: []byte(host), Path: []byte("/")}, &m)
		return string(m.Checks[0].Identity())
	}
	n := rig.StartNginx(t, `server { listen LISTEN; server_name "~^(?<shop>..+)/x$"; location / { return 200 $host; } }`, nil)
	check := func(line, host string) {
		t.Helper()
		got := n.SendRaw(t, line+"\r\nConnection: close\r\n\r\n")
		if valid := limits.HostIsValid([]byte(host)); valid != (got.Status == 200) {
			t.Errorf("%q: nginx answers %d, valid is %v", host, got.Status, valid)
		} else if valid && keyOf(host) != keyOf(got.Body) {
			t.Errorf("%q: %s, want %s for nginx's $host %q", host, keyOf(host), keyOf(got.Body), got.Body)
		}
	}
	names := []string{"site.test", "SITE.test", "site", "site..test", ".site.test", "münchen.test", "a_b", "a@b", "a?b",
		"a#b",
		"a/b", "a\\b", "a b", "a\x7fb", "[::1]", "[::1", "::1]", "[]", "a[1]", "[a]b", "[::1].", "", "..", "203.0.113.9"}
	ends := []string{"", ".", "..", ":", ":80", ".:80", "..:80", ":1:2", "::", ":x:y", ".:1:2", ":80.", ":8.0", ":8..0",
		":80/",
		"]:80", ":[x]"}
	for _, name := range names {
		for _, end := range ends {
			if host := name + end; host != "" {
				check("GET / HTTP/1.1\r\nHost: "+host, strings.TrimSpace(host))
			}
		}
	}
	// A client of HTTP/1.0 need not name a host: $host is the server's first name, an expression here.
	got := n.SendRaw(t, "GET / HTTP/1.0\r\n\r\n")
	text := fmt.Sprint(got.Status, " ", got.Body)
	if text != "200 ~^(?<shop>..+)/x$" || !limits.HostIsValid([]byte(got.Body)) {
		t.Errorf("without a host: %s, valid %v", text, limits.HostIsValid([]byte(got.Body)))
	}
}
