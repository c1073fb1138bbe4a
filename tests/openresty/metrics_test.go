package openresty

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// families is the series of a metrics text, sorted, without their numbers, by the line that has their type.
func families(text string) map[string][]string {
	found, current := map[string][]string{}, ""
	for line := range strings.Lines(text) {
		if kind, ok := strings.CutPrefix(line, "# TYPE authz_"); ok {
			current = "authz_" + strings.TrimSpace(kind)
			found[current] = nil
		} else if strings.HasPrefix(line, "authz_") {
			found[current] = append(found[current], line[:strings.LastIndexByte(line, ' ')])
		}
	}
	for _, series := range found {
		slices.Sort(series)
	}
	return found
}

// For the same limits and requests the pack's metrics are the service's: names, types, labels and numbers.
func TestTheMetricsOfThePackAreThoseOfTheService(t *testing.T) {
	const toml = `
		[limit.two]
		match = { path = "/two" }
		key = []
		algorithm = "fixed_window"
		rate = "2/366d"
		[limit.watch]
		match = { path = "/two" }
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		mode = "shadow"
		[limit.user]
		match = { path = "/user" }
		key = ["header:X-User"]
		missing = "deny"
		algorithm = "fixed_window"
		rate = "unlimited"
		[limit.zero]
		match = { path = "/zero" }
		key = []
		algorithm = "token_bucket"
		rate = "0/s"
		[allow.probes]
		match = { path = "/healthz" }
		[allow.unused]
		match = { path = "/unused" }
		[deny.scanners]
		match = { path = "/wp-login.php" }`
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, toml))
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: toml})
	checker := a.Checker()
	for _, row := range [][2]string{{"/two", "200"}, {"/two", "200"}, {"/two", "429"}, {"/user", "403"}, {"/zero", "429"},
		{"/healthz", "200"}, {"/healthz", "200"}, {"/wp-login.php", "403"}, {"/else", "200"}} {
		rig.Same(t, checker.Check(t, "GET "+row[0], nil), row[1])
		rig.Same(t, s.SendAll(t, 1, "GET "+row[0]), row[1])
	}
	rig.Same(t, checker.Check(t, "GET /user", []string{"X-User: u"}), "200")
	rig.Same(t, s.SendAll(t, 1, "GET /user", "X-User: u"), "200")

	_, service := a.Get(t, "/metrics")
	pack := s.Send(t, "GET /metrics", "").Body
	theirs, ours := families(service), families(pack)
	for family, series := range ours {
		if !strings.HasPrefix(family, "authz_dict_writes_total ") && !slices.Equal(series, theirs[family]) {
			t.Errorf("%s\nthe pack has\n%s\nthe service\n%s", family, strings.Join(series, "\n"), strings.Join(theirs[family], "\n"))
		}
	}
	// What only the service has: it is about a process of Go, its store and its listener, and what proxies send.
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(theirs)), func(family string) bool { _, there := ours[family]; return there })
	rig.Same(t, strings.Join(missing, "\n"), strings.TrimSpace(`
authz_admin_denied_total counter
authz_build_info gauge
authz_flawed_requests_total counter
authz_held_answers gauge
authz_ignored_headers_total counter
authz_log_lines_lost_total counter
authz_memory_buckets gauge
authz_memory_buckets_dropped_total counter
authz_panics_total counter
authz_rejected_requests_total counter
authz_store_duration_seconds histogram`))
	counts := regexp.MustCompile(`(?m)^authz_(?:requests|decisions|rule_decisions|key_parts_missing|degraded|store_errors|remembered_refusals|unknown_ip|unreadable_ip)_total.*$|^authz_limits(?:_last_reload_successful)? .*$`)
	rig.Same(t, strings.Join(slices.Sorted(slices.Values(counts.FindAllString(pack, -1))), "\n"),
		strings.Join(slices.Sorted(slices.Values(counts.FindAllString(service, -1))), "\n"))
}

// A client on a unix socket has no address that can be read: all such clients share one bucket, no rule for loopback
// lets them in, and the log says what to do.
func TestARequestWithoutAnAddressIsCounted(t *testing.T) {
	socket := filepath.Join(rig.SocketDir(t), "site.sock")
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: `
		[allow.self]
		match = { ip = "127.0.0.1" }
		[limit.one]
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "1/366d"`, Server: `
		listen unix:` + socket + `;
		location / { proxy_pass http://app; }`})
	s.MayLog = []string{"cannot be read"}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}}
	for _, want := range []int{200, 429} {
		resp, err := client.Get("http://site.test/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		rig.Same(t, fmt.Sprint(resp.StatusCode), fmt.Sprint(want))
	}
	rig.Same(t, s.SendAll(t, 2, "GET /"), "200 200") // a client with an address is another client
	rig.Same(t, s.Metric(t, "authz_unreadable_ip_total"), "2")
	rig.Same(t, s.Metric(t, "authz_unknown_ip_total"), "0")
	s.Quit(t)
	const line = `authz: the address of a client cannot be read, "unix:"; it counts as ip=unknown. Where nginx listens on a ` +
		"unix socket, set_real_ip_from unix: and real_ip_header name the client"
	if n := strings.Count(s.Read(t, "error.log"), line); n != 1 {
		t.Errorf("%d lines in the log, want one:\n%s", n, s.Read(t, "error.log"))
	}
}

// A bad file is in the metrics while it lies there, like the service's.
func TestAFailedReloadIsInTheMetrics(t *testing.T) {
	limits := noLimits
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: limits})
	s.MayLog = []string{"the limits stay as they are"}
	const series = "authz_limits_last_reload_successful"
	file := filepath.Join(s.Dir, "limits.json")
	good := s.Read(t, "limits.json")
	rig.Same(t, s.Metric(t, series), "1")
	rig.ReplaceFile(t, file, "{}")
	rig.Await(t, "failed reload", func() bool { return s.Metric(t, series) == "0" })
	rig.ReplaceFile(t, file, good)
	rig.Await(t, "good file", func() bool { return s.Metric(t, series) == "1" })
}

// Workers that leave take no count with them, and the counters go on after nginx has read its configuration
// again.
func TestAReloadOfNginxLosesNoCount(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: `
		[limit.all]
		key = []
		algorithm = "fixed_window"
		rate = "1000000/366d"`})
	before := s.Workers(t)
	s.Crowd(t, 8, 200, "/", func() {})
	s.Cmd.Process.Signal(syscall.SIGHUP) // right behind the last answer
	rig.Await(t, "new workers alone", func() bool {
		return !slices.ContainsFunc(s.Workers(t), func(pid string) bool { return slices.Contains(before, pid) })
	})
	rig.Same(t, s.Metric(t, `authz_decisions_total{limit="all",verdict="admitted"}`), "200")
	rig.Same(t, s.SendAll(t, 1, "GET /"), "200")
	rig.Same(t, s.Metric(t, `authz_requests_total{verdict="admitted"}`), "201")
}
