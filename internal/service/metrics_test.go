package service

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"authz/internal/buildinfo"
	"authz/internal/testkit"
)

// shown is the lines of /metrics that begin with one of these.
func shown(t testing.TB, s *Service, prefixes ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(s.Metrics.Registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

func TestMetricsCountWhatEachLimitSaid(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		match     = { path = "/a" }
		key       = ["header:X-API-Key"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "2/d"
		[limit.b]
		match     = { path = "/a" }
		key       = []
		algorithm = "fixed_window"
		rate      = "1/d"
		mode      = "shadow"
		[limit.c]
		match     = { path = "/c" }
		key       = ["header:X-API-Key"]
		missing   = "deny"
		algorithm = "fixed_window"
		rate      = "2/d"
		[limit.z]
		match     = { path = "/a" }
		key       = []
		algorithm = "fixed_window"
		rate      = "unlimited"
		[deny.c]
		match = { path = "/.env" }
		[deny.never]
		match = { path = "/never" }
		[allow.c]
		match = { path = "/healthz" }`)
	answers(t, s, "X-Original-URI: /healthz", "X-Real-IP: 203.0.113.9")
	answers(t, s, "X-Original-URI: /.env", "X-Real-IP: 203.0.113.9")
	answers(t, s, "X-Original-URI: /.env", "X-Real-IP: 203.0.113.9")
	for range 3 {
		answers(t, s, "X-Original-URI: /a", "X-Real-IP: 203.0.113.9")
	}
	answers(t, s, "X-Original-URI: /c", "X-Real-IP: unknown")
	answers(t, s, "X-Real-IP: 203.0.113.9")
	got := shown(t, s, "authz_requests", "authz_decisions", "authz_rule", "authz_key_parts", "authz_flawed_requests_total{kind=\"no_uri\"",
		"authz_unreadable", "authz_store_duration_seconds_count", "authz_limits ", "authz_limits_last_reload_successful", "authz_held")
	want := `authz_decisions_total{limit="a",verdict="admitted"} 2
authz_decisions_total{limit="a",verdict="blocked"} 0
authz_decisions_total{limit="a",verdict="limited"} 1
authz_decisions_total{limit="a",verdict="unavailable"} 0
authz_decisions_total{limit="b",verdict="shadow_admitted"} 1
authz_decisions_total{limit="b",verdict="shadow_limited"} 2
authz_decisions_total{limit="c",verdict="admitted"} 0
authz_decisions_total{limit="c",verdict="blocked"} 1
authz_decisions_total{limit="c",verdict="limited"} 0
authz_decisions_total{limit="c",verdict="unavailable"} 0
authz_decisions_total{limit="z",verdict="admitted"} 3
authz_decisions_total{limit="z",verdict="blocked"} 0
authz_decisions_total{limit="z",verdict="limited"} 0
authz_decisions_total{limit="z",verdict="unavailable"} 0
authz_flawed_requests_total{kind="no_uri"} 1
authz_held_answers 0
authz_key_parts_missing_total{limit="a"} 3
authz_key_parts_missing_total{limit="b"} 0
authz_key_parts_missing_total{limit="c"} 1
authz_key_parts_missing_total{limit="z"} 0
authz_limits 4
authz_limits_last_reload_successful 1
authz_requests_total{verdict="admitted"} 3
authz_requests_total{verdict="blocked"} 4
authz_requests_total{verdict="limited"} 1
authz_requests_total{verdict="unavailable"} 0
authz_rule_decisions_total{rule="c",verdict="admitted"} 1
authz_rule_decisions_total{rule="c",verdict="blocked"} 2
authz_rule_decisions_total{rule="never",verdict="blocked"} 0
authz_store_duration_seconds_count 3
authz_unreadable_ip_total 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// What is no longer in the file would stand still for ever.
func TestSeriesGoWithTheirLimits(t *testing.T) {
	const a, b = "[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"5/d\"\n", "[limit.b]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"5/d\"\n"
	s := serviceFor(t, a+b+"[allow.x]\nmatch = { path = \"/x\" }\n[deny.x]\nmatch = { path = \"/.x\" }\n")
	load := func(text, want string) {
		t.Helper()
		r := &reloader{service: s, prefix: "authz", paths: []string{testkit.WriteFile(t, "limits.toml", text)}, log: s.Log}
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		if got := shown(t, s, "authz_decisions", "authz_key_parts", "authz_rule"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
	}
	answers(t, s, "X-Original-URI: /")
	const aStays = `authz_decisions_total{limit="a",verdict="admitted"} 1
authz_decisions_total{limit="a",verdict="blocked"} 0
authz_decisions_total{limit="a",verdict="limited"} 0
authz_decisions_total{limit="a",verdict="unavailable"} 0
`
	load(a+"[deny.x]\nmatch = { path = \"/.x\" }\n", aStays+`authz_key_parts_missing_total{limit="a"} 0
authz_rule_decisions_total{rule="x",verdict="blocked"} 0
`)
	load(a+b+"mode = \"shadow\"\n", aStays+`authz_decisions_total{limit="b",verdict="shadow_admitted"} 0
authz_decisions_total{limit="b",verdict="shadow_limited"} 0
authz_key_parts_missing_total{limit="a"} 0
authz_key_parts_missing_total{limit="b"} 0
`)
	answers(t, s, "X-Original-URI: /")
	load(b, `authz_decisions_total{limit="b",verdict="admitted"} 0
authz_decisions_total{limit="b",verdict="blocked"} 0
authz_decisions_total{limit="b",verdict="limited"} 0
authz_decisions_total{limit="b",verdict="unavailable"} 0
authz_key_parts_missing_total{limit="b"} 0
`)
}

func TestMetricsSayWhatOtherwiseNobodySees(t *testing.T) {
	before := time.Now()
	s := serviceFor(t, "[limit.a]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"5/d\"\non_error = \"deny\"\n")
	check := func(prefix, want string) {
		t.Helper()
		if got := shown(t, s, prefix); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
	check("authz_build_info", fmt.Sprintf("authz_build_info{goversion=%q,revision=%q,version=%q} 1\n", runtime.Version(), buildinfo.Revision(), buildinfo.Version()))
	loaded, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(shown(t, s, "authz_limits_last_reload_success_timestamp_seconds"),
		"authz_limits_last_reload_success_timestamp_seconds")), 64)
	if at := time.UnixMilli(int64(math.Round(loaded * 1000))); err != nil || at.Before(before.Truncate(time.Millisecond)) || at.After(time.Now()) {
		t.Errorf("loaded at %v (%v), want a time from %v on", at, err, before)
	}

	log, out := testkit.Log()
	s.Log = log
	if err := s.openStores(&Options{MemoryBuckets: 100}); err != nil {
		t.Fatal(err)
	}
	if want := "level=INFO msg=\"no --redis: counts are this process's own, and lost when it ends\" memory_buckets=100\n"; out.String() != want {
		t.Errorf("logged\n%swant\n%s", out, want)
	}
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.1")
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.2")
	check("authz_memory_buckets", "authz_memory_buckets 2\nauthz_memory_buckets_dropped_total 0\n")

	ctx := asked(t, &net.UnixAddr{}, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /")
	out.Reset()
	s.handle(ctx)
	check("authz_unknown_ip", "authz_unknown_ip_total 1\n")
	if want := "level=WARN msg=\"request without a client address: set X-Real-IP in the proxy; it counts as ip=unknown\"\n"; out.String() != want {
		t.Errorf("logged\n%swant\n%s", out, want)
	}

	s.store = failing(func() error { return context.DeadlineExceeded })
	answers(t, s, "X-Original-URI: /")
	check("authz_degraded", "authz_degraded_total{on_error=\"allow\"} 0\nauthz_degraded_total{on_error=\"deny\"} 1\nauthz_degraded_total{on_error=\"local\"} 0\n")
	check("authz_store_errors_total{kind=\"timeout\"", "authz_store_errors_total{kind=\"timeout\"} 1\n")
	check("authz_decisions_total{limit=\"a\",verdict=\"unavailable\"", "authz_decisions_total{limit=\"a\",verdict=\"unavailable\"} 1\n")
}
