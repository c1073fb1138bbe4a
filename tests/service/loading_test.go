package service

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// A Redis that is loading its data says so: that is an answer. on_error decides, no breaker opens, and the
// first request after it has loaded finds what was counted before. (C114)
func TestARedisThatIsLoadingIsAskedUntilItHasLoaded(t *testing.T) {
	r := rig.StartRedis(t, "--enable-debug-command", "yes")
	start := func() (*rig.AuthzServer, func(path, want string)) {
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=20s")
		ask := a.Checker()
		return a, func(path, want string) {
			t.Helper()
			got := ask.Check(t, "GET "+path, nil, "X-Authz-Degraded", "RateLimit")
			if got, _, _ = strings.Cut(got, ";t="); got != want {
				t.Errorf("%s: got  %s\nwant %s", path, got, want)
			}
		}
	}
	a, check := start()
	check("/deny", `200 RateLimit="deny";r=99`)
	rig.BeginLoading(t, &rig.Scene{Redis: r})
	b, checkNew := start() // which finds it like this
	b.Await(t, `level=WARN msg="Redis is not ready, on_error decides until it is, see authz doctor" redis=`+r.URL()+" kind=loading ")
	for i := range 10 {
		check("/deny", "503 X-Authz-Degraded=deny")
		check("/allow", "200 X-Authz-Degraded=allow")
		local := `429 X-Authz-Degraded=local RateLimit="local";r=0`
		if i < 3 { // 3 of 12 are the share of one in four
			local = fmt.Sprintf(`200 X-Authz-Degraded=local RateLimit="local";r=%d`, 2-i)
		}
		check("/local", local)
		checkNew("/deny", "503 X-Authz-Degraded=deny")
	}
	for _, at := range []struct {
		*rig.AuthzServer
		requests int
	}{{a, 30}, {b, 10}} {
		for line := range strings.Lines(at.Metrics(t, "authz_store_errors_total")) {
			if loading := strings.Contains(line, `"loading"`); !strings.HasSuffix(line, " 0\n") != loading {
				t.Errorf("metrics: %swant errors of kind loading alone", line)
			}
		}
		rig.Same(t, fmt.Sprint(at.Counted(t, `authz_store_errors_total{kind="loading"}`)), fmt.Sprint(at.requests))
		at.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
		_, body := at.Get(t, "/readyz")
		rig.Same(t, body, "serving\nstore: redis, no answer: loading\n")
		if n := strings.Count(at.Logged(), "\"the store cannot answer, on_error decides\" kind=loading "); n != 1 {
			t.Errorf("%d lines of kind loading, want one in 30 s", n)
		}
	}
	r.MustDo(t, "config", "set", "key-load-delay", "0")
	rig.Await(t, "Redis that has loaded", func() bool { return r.Get(t.Context(), "key:0").Err() == nil })
	check("/deny", `200 RateLimit="deny";r=98`)
	checkNew("/deny", `200 RateLimit="deny";r=97`)
	b.Await(t, `level=INFO msg="Redis is ready"`)
}
