package tests

import (
	"fmt"
	"strings"
	"testing"
)

// A Redis that is loading its data says so: that is an answer. on_error decides, no breaker opens, and the
// first request after it has loaded finds what was counted before. (C114)
func TestARedisThatIsLoadingIsAskedUntilItHasLoaded(t *testing.T) {
	r := startRedis(t, "--enable-debug-command", "yes")
	start := func() (*authzServer, func(path, want string)) {
		a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis="+r.url(), "--redis-timeout=20s")
		ask := a.checker()
		return a, func(path, want string) {
			t.Helper()
			got := ask.check(t, "GET "+path, nil, "X-Authz-Degraded", "RateLimit")
			if got, _, _ = strings.Cut(got, ";t="); got != want {
				t.Errorf("%s: got  %s\nwant %s", path, got, want)
			}
		}
	}
	a, check := start()
	check("/deny", `200 RateLimit="deny";r=99`)
	beginLoading(t, &scene{redis: r})
	b, checkNew := start() // which finds it like this
	b.await(t, `level=WARN msg="Redis is not ready, on_error decides until it is, see authz doctor" redis=`+r.url()+" kind=loading ")
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
		*authzServer
		requests int
	}{{a, 30}, {b, 10}} {
		for line := range strings.Lines(at.metrics(t, "authz_store_errors_total")) {
			if loading := strings.Contains(line, `"loading"`); !strings.HasSuffix(line, " 0\n") != loading {
				t.Errorf("metrics: %swant errors of kind loading alone", line)
			}
		}
		same(t, fmt.Sprint(at.counted(t, `authz_store_errors_total{kind="loading"}`)), fmt.Sprint(at.requests))
		at.breakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
		_, body := at.get(t, "/readyz")
		same(t, body, "serving\nstore: redis, no answer: loading\n")
		if n := strings.Count(at.logged(), "\"the store cannot answer, on_error decides\" kind=loading "); n != 1 {
			t.Errorf("%d lines of kind loading, want one in 30 s", n)
		}
	}
	r.do(t, "config", "set", "key-load-delay", "0")
	await(t, "Redis that has loaded", func() bool { return r.Get(t.Context(), "key:0").Err() == nil })
	check("/deny", `200 RateLimit="deny";r=98`)
	checkNew("/deny", `200 RateLimit="deny";r=97`)
	b.await(t, `level=INFO msg="Redis is ready"`)
}
