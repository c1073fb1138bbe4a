package main

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
)

// shown is the lines of /metrics that begin with one of these.
func shown(t testing.TB, s *service, prefixes ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	s.admin(func() bool { return false }, nil).Handler.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
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

func TestTheAdminListenerTellsTheProcessFromTheService(t *testing.T) {
	s := serviceFor(t, tokens)
	draining := false
	admin := s.admin(func() bool { return draining }, func(context.Context) string { return "redis, no answer: timeout" })
	check := func(method, path string, wantStatus int, wantBody string) {
		t.Helper()
		w := httptest.NewRecorder()
		admin.Handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != wantStatus || w.Body.String() != wantBody {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, w.Code, w.Body, wantStatus, wantBody)
		}
	}
	check("GET", "/healthz", 200, "ok\n")
	check("HEAD", "/healthz", 200, "ok\n") // net/http leaves the body out on the wire
	// a store that is down is no reason to send nobody here
	check("GET", "/readyz", 200, "serving\nstore: redis, no answer: timeout\n")
	check("POST", "/readyz", 405, "Method Not Allowed\n")
	check("GET", "/nginx", 404, "404 page not found\n")
	draining = true
	check("GET", "/healthz", 200, "ok\n")
	check("GET", "/readyz", 503, "draining\n")
}
