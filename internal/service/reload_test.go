package service

import (
	"os"
	"strings"
	"testing"

	"authz/internal/testkit"
)

func TestAReloadAppliesWholeOrNotAtAll(t *testing.T) {
	const a = "[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"5/d\"\n"
	const b = "[limit.b]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"7/d\"\n"
	file := testkit.WriteFile(t, "limits.toml", a)
	s := serviceFor(t, a)
	log, out := testkit.Log()
	r := &reloader{service: s, prefix: "authz", paths: []string{file}, log: log}
	if err := r.load(); err != nil {
		t.Fatal(err)
	}
	check := func(text, wantLog, wantMetrics, wantAnswer string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out.Reset()
		r.reload("test")
		if got := strings.ReplaceAll(out.String(), file, "limits.toml"); got != wantLog {
			t.Errorf("logged\n%swant\n%s", got, wantLog)
		}
		if got := shown(t, s, "authz_limits ", "authz_limits_last_reload_successful"); got != wantMetrics {
			t.Errorf("metrics\n%swant\n%s", got, wantMetrics)
		}
		answer := answers(t, s, "X-Original-URI: /")
		if _, got, _ := strings.Cut(answer, "X-Authz-Limit: "); !strings.HasPrefix(got, wantAnswer) {
			t.Errorf("answered\n%s\nwant limit %s", answer, wantAnswer)
		}
	}
	const one, two = "authz_limits 1\n", "authz_limits 2\n"
	const good, bad = "authz_limits_last_reload_successful 1\n", "authz_limits_last_reload_successful 0\n"
	check(a, "level=INFO msg=\"limits reloaded\" why=test limits=1 changed=false\n", one+good, "a\nRateLimit-Policy: \"a\";q=5;w=86400\nRateLimit: \"a\";r=4")
	check(a+b, "level=INFO msg=\"limits reloaded\" why=test limits=2 changed=true\n", two+good, "a\nRateLimit-Policy: \"a\";q=5;w=86400\nRateLimit: \"a\";r=3")
	// one bad line, and nothing of the file counts
	check(b+"burst = 3\n", "level=ERROR msg=\"limits not reloaded, the old ones stay\" why=test error=\""+
		"limits.toml:5: limit.b: burst = 3, want none: only token_bucket and leaky_bucket have a burst, this is a fixed_window\"\n", two+bad, "a\nRateLimit-Policy: \"a\";q=5;w=86400\nRateLimit: \"a\";r=2")
	// what was used stays used, and a raise adds what it says
	check(strings.Replace(a, "5/d", "6/d", 1), "level=INFO msg=\"limits reloaded\" why=test limits=1 changed=true\n", one+good,
		"a\nRateLimit-Policy: \"a\";q=6;w=86400\nRateLimit: \"a\";r=2")
}
