package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/internal/store"
	"authz/limits"
)

// counted is the value of a metric.
func counted(t testing.TB, s *Service, metric string) int {
	t.Helper()
	var n float64 // a million is shown as 1e+06
	if _, err := fmt.Sscan(strings.TrimPrefix(shown(t, s, metric+" "), metric), &n); err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func TestAMillionRefusedRequestsHardlyAskTheStore(t *testing.T) {
	s := serviceFor(t, `
		[limit.login]
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "5/m"`)
	s.Refusals = store.NewRefusals(100_000)
	const keys, want = million / 1000, million
	var asks []*fasthttp.RequestCtx
	for i := range keys {
		asks = append(asks, asked(t, loopback, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET",
			"X-Original-URI: /", fmt.Sprintf("X-Real-IP: 10.0.%d.%d", i/256, i%256)))
	}
	q, refused := new(request), 0
	for i := 0; refused < want; i++ {
		if d := s.answer(asks[i%keys], 0, q); d.Verdict == decision.Limited {
			refused++
		}
	}
	calls, admissions := counted(t, s, "authz_store_duration_seconds_count"), counted(t, s, `authz_decisions_total{limit="login",verdict="admitted"}`)
	if calls-admissions >= 5*keys {
		t.Errorf("%d calls beyond the %d admissions, want less than %d", calls-admissions, admissions, 5*keys)
	}
	if n := counted(t, s, `authz_decisions_total{limit="login",verdict="limited"}`); n != want {
		t.Errorf("%d are counted as limited, want all %d", n, want)
	}
	if n := counted(t, s, "authz_remembered_refusals_total"); n != want-(calls-admissions) {
		t.Errorf("%d are counted as remembered, want %d", n, want-(calls-admissions))
	}
}

func TestTheLongestRememberedWaitAnswers(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		key       = []
		algorithm = "fixed_window"
		rate      = "5/m"
		[limit.b]
		key       = []
		algorithm = "fixed_window"
		rate      = "9/m"
		[limit.c]
		key       = []
		algorithm = "fixed_window"
		rate      = "7/m"
		[limit.d]
		key       = []
		algorithm = "fixed_window"
		rate      = "7/m"
		mode      = "shadow"`)
	s.Refusals = store.NewRefusals(100)
	q, sent := &request{rules: s.Rules.Load()}, time.Hour
	q.rules.Set.Match(&limits.Attrs{Path: []byte("/")}, &q.match)
	checks := q.match.Checks
	refuse := func(i int, wait time.Duration) {
		s.Refusals.Learn(checks[i:i+1], []store.Result{{WaitUS: wait.Microseconds()}}, sent)
	}
	says := func(after time.Duration, want string) {
		t.Helper()
		d := s.refusedBefore(q, checks, sent+after)
		if got := s.style.text(d); got != want {
			t.Errorf("after %v: got\n%s\nwant\n%s", after, got, want)
		}
	}
	says(0, "admitted\nX-Authz-Status: 200")
	refuse(0, 3*time.Second)
	refuse(1, 20*time.Second)
	refuse(3, 40*time.Second)
	says(0, "limited\nX-Authz-Status: 429\nX-Authz-Limit: b\nRetry-After: 20\nRateLimit-Policy: \"b\";q=9;w=60\nRateLimit: \"b\";r=0;t=20")
	says(1500*time.Millisecond, "limited\nX-Authz-Status: 429\nX-Authz-Limit: b\nRetry-After: 19\nRateLimit-Policy: \"b\";q=9;w=60\nRateLimit: \"b\";r=0;t=19")
	says(19999*time.Millisecond, "limited\nX-Authz-Status: 429\nX-Authz-Limit: b\nRetry-After: 1\nRateLimit-Policy: \"b\";q=9;w=60\nRateLimit: \"b\";r=0;t=1")
	says(20*time.Second, "admitted\nX-Authz-Status: 200")
	if got, want := shown(t, s, "authz_decisions_total"), `authz_decisions_total{limit="a",verdict="limited"} 2`; !strings.Contains(got, want) {
		t.Errorf("metrics:\n%s\nwant %s: it refused too, as long as it did", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { s.refusedBefore(q, checks, sent) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

// A schedule that begins, or ends, is asked about at once, whatever was remembered before.
func TestASwitchOfNumbersEndsARememberedRefusal(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		key       = []
		algorithm = "sliding_window"
		rate      = "5/d"
		[schedule.a.sale]
		rate  = "8/d"
		from  = "2026-11-27T00:00"
		until = "2026-11-28T00:00"
		zone  = "UTC"`)
	s.Refusals = store.NewRefusals(100)
	q, start, sent := &request{rules: s.Rules.Load()}, time.Date(2026, 11, 26, 23, 0, 0, 0, time.UTC), time.Hour
	checks := func(after time.Duration) []limits.Check {
		q.rules.Set.Match(&limits.Attrs{Path: []byte("/"), NowUS: start.Add(after).UnixMicro()}, &q.match)
		return q.match.Checks
	}
	says := func(after time.Duration, want string) {
		t.Helper()
		if got := s.style.text(s.refusedBefore(q, checks(after), sent+after)); got != want {
			t.Errorf("after %v: got\n%s\nwant\n%s", after, got, want)
		}
	}
	refuse := func(after, wait time.Duration) {
		s.Refusals.Learn(checks(after), []store.Result{{WaitUS: wait.Microseconds()}}, sent+after)
	}
	const asked = "admitted\nX-Authz-Status: 200"
	refuse(0, 48*time.Hour)
	says(time.Hour-time.Second, "limited\nX-Authz-Status: 429\nX-Authz-Limit: a\nRetry-After: 169201\nRateLimit-Policy: \"a\";q=5;w=86400\nRateLimit: \"a\";r=0;t=169201")
	says(time.Hour, asked)
	says(25*time.Hour, asked) // it has the numbers of before, and other instances may have charged meanwhile
	refuse(26*time.Hour, 48*time.Hour)
	says(27*time.Hour, "limited\nX-Authz-Status: 429\nX-Authz-Limit: a\nRetry-After: 169200\nRateLimit-Policy: \"a\";q=5;w=86400\nRateLimit: \"a\";r=0;t=169200")
}
