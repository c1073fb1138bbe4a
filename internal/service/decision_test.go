package service

import (
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/internal/store"
	"authz/limits"
)

const second = 1_000_000

// window and bucketOf make a check of a limit that allows count a minute.
func window(name string, count int64) limits.Check {
	rate := &limits.Rate{Count: count, WindowUS: 60 * second}
	return limits.Check{Limit: &limits.Limit{Name: name, Algorithm: limits.SlidingWindow, Rate: *rate}, Rate: rate, Cost: 1}
}

func bucketOf(name string, alg limits.Algorithm, count, burst int64) limits.Check {
	c := window(name, count)
	c.Limit.Algorithm = alg
	size := burst
	if alg == limits.LeakyBucket {
		size = burst + 1
	}
	c.Rate.Burst, c.Rate.N, c.Rate.W, c.Rate.Capacity = burst, count, 60*second, size*60*second
	return c
}

func shadow(c limits.Check) limits.Check {
	c.Limit.Shadow = true
	return c
}

func onErrorOf(c limits.Check, e limits.OnError) limits.Check {
	c.Limit.OnError = e
	return c
}

func yes(remaining, resetUS int64) store.Result {
	return store.Result{Allowed: true, Remaining: remaining, ResetUS: resetUS}
}

func held(waitUS int64) store.Result {
	return store.Result{Allowed: true, Remaining: 1, WaitUS: waitUS}
}

func no(remaining, waitUS int64) store.Result {
	return store.Result{Remaining: remaining, WaitUS: waitUS, ResetUS: 3600 * second}
}

// text is the decision, and all that is said about it but what every answer says.
func (o headerStyle) text(d decision.Decision) string {
	var h fasthttp.ResponseHeader
	h.SetNoDefaultContentType(true)
	o.set(&h, &d, nil)
	_, headers, _ := strings.Cut(h.String(), "Cache-Control: no-store\r\n")
	text := d.Verdict.String()
	if d.HoldUS > 0 {
		text += fmt.Sprintf(" after %d us", d.HoldUS)
	}
	return text + "\n" + strings.TrimSuffix(strings.ReplaceAll(headers, "\r\n", "\n"), "\n\n")
}

func TestTheStoreDecides(t *testing.T) {
	check := func(checks []limits.Check, results []store.Result, want ...string) {
		t.Helper()
		if got := (headerStyle{ietf: true}).text(decision.Decide(checks, results)); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	type c = []limits.Check
	type r = []store.Result

	// one limit: its numbers
	check(c{window("a", 5)}, r{yes(4, 59_000_001)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=4;t=60`)
	check(c{window("a", 5)}, r{no(0, 1)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "Retry-After: 1", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=0;t=1`)
	// Retry-After is never 0, and exact seconds stay
	check(c{window("a", 5)}, r{no(0, 0)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "Retry-After: 1", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=0;t=1`)
	check(c{window("a", 5)}, r{no(2, 7_000_000)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "Retry-After: 7", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=2;t=7`)
	// no wait helps
	check(c{window("a", 5)}, r{no(5, -1)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=5`)
	// refused by two: the longest wait, never being the longest, the first by name of equals
	check(c{window("a", 5), window("b", 6), window("c", 7)}, r{no(0, 3*second), no(0, 4*second), no(0, 4*second)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: b", "Retry-After: 4", `RateLimit-Policy: "b";q=6;w=60`, `RateLimit: "b";r=0;t=4`)
	check(c{window("a", 5), window("b", 6), window("c", 7)}, r{no(0, 3*second), no(0, -1), no(0, 4*second)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: b", `RateLimit-Policy: "b";q=6;w=60`, `RateLimit: "b";r=0`)
	check(c{window("a", 5), window("b", 6)}, r{no(1, -1), no(0, -1)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=1`)
	// one refusal is enough, wherever it stands
	check(c{window("a", 5), window("b", 6), window("c", 7)}, r{yes(0, 0), no(3, second), yes(0, 0)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: b", "Retry-After: 1", `RateLimit-Policy: "b";q=6;w=60`, `RateLimit: "b";r=3;t=1`)
	// admitted by all: the smallest share, the first by name of equals
	check(c{window("a", 10), window("b", 100)}, r{yes(5, second), yes(49, second)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: b", `RateLimit-Policy: "b";q=100;w=60`, `RateLimit: "b";r=49;t=1`)
	check(c{window("a", 10), window("b", 100)}, r{yes(5, second), yes(50, second)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", `RateLimit-Policy: "a";q=10;w=60`, `RateLimit: "a";r=5;t=1`)
	// shares are compared exactly: these differ by one in 10^30
	check(c{window("a", 1_000_000_000_000_001), window("b", 1_000_000_000_000_000)},
		r{yes(1_000_000_000_000_000, 0), yes(999_999_999_999_999, 0)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: b", `RateLimit-Policy: "b";q=999999999999999;w=60`, `RateLimit: "b";r=999999999999999;t=0`)
	// a shadow has no part in it
	check(c{shadow(window("a", 5)), window("b", 6)}, r{no(0, -1), yes(6, 0)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: b", `RateLimit-Policy: "b";q=6;w=60`, `RateLimit: "b";r=6;t=0`)
	check(c{shadow(window("a", 5))}, r{no(0, second)}, "admitted", "X-Authz-Status: 200")
	check(c{shadow(bucketOf("a", limits.LeakyBucket, 60, 5))}, r{held(second)}, "admitted", "X-Authz-Status: 200")
	// buckets: q is what they hold, w the time that fills them, if whole seconds
	check(c{bucketOf("t", limits.TokenBucket, 60, 10)}, r{yes(9, second)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: t", `RateLimit-Policy: "t";q=10;w=10`, `RateLimit: "t";r=9;t=1`)
	check(c{bucketOf("t", limits.TokenBucket, 7, 10)}, r{yes(9, second)},
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: t", `RateLimit-Policy: "t";q=10`, `RateLimit: "t";r=9;t=1`)
	// a leaky bucket holds one more than its burst, and the answer; the longest hold counts
	check(c{bucketOf("l", limits.LeakyBucket, 60, 4), bucketOf("m", limits.LeakyBucket, 60, 4)}, r{held(200_000), held(150_000)},
		"admitted after 200000 us", "X-Authz-Status: 200", "X-Authz-Limit: l", `RateLimit-Policy: "l";q=5;w=5`, `RateLimit: "l";r=1;t=0`)
	// a refusal is not held
	check(c{bucketOf("l", limits.LeakyBucket, 60, 4), window("m", 5)}, r{held(200_000), no(0, second)},
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: m", "Retry-After: 1", `RateLimit-Policy: "m";q=5;w=60`, `RateLimit: "m";r=0;t=1`)
}

func TestAnEnforcing0RefusesAtOnce(t *testing.T) {
	check := func(checks []limits.Check, wantRest string, want ...string) {
		t.Helper()
		rest, d := decision.RefuseAtOnce(checks)
		if got := names(rest); got != wantRest {
			t.Errorf("left for the store: %q, want %q", got, wantRest)
		}
		if got := (headerStyle{ietf: true}).text(d); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	type c = []limits.Check
	check(c{window("a", 1), window("b", 2)}, "a b", "admitted", "X-Authz-Status: 200")
	check(c{window("a", 1), window("b", 0), window("c", 0)}, "a",
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: b", `RateLimit-Policy: "b";q=0;w=60`, `RateLimit: "b";r=0`)
	check(c{shadow(window("a", 0)), window("b", 2)}, "b", "admitted", "X-Authz-Status: 200")
	check(c{shadow(window("a", 0))}, "", "admitted", "X-Authz-Status: 200")
	check(c{{Limit: &limits.Limit{Name: "t", Algorithm: limits.TokenBucket}, Rate: &limits.Rate{WindowUS: second}}}, "",
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: t", `RateLimit-Policy: "t";q=0`, `RateLimit: "t";r=0`)
}

func TestOnErrorDecidesWithoutTheStore(t *testing.T) {
	check := func(checks []limits.Check, clientCaused bool, wantLocal string, want ...string) {
		t.Helper()
		local, d := decision.Degrade(checks, nil, clientCaused)
		if got := names(local); got != wantLocal {
			t.Errorf("left to the in-memory store: %q, want %q", got, wantLocal)
		}
		if got := (headerStyle{ietf: true}).text(d); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	allow := func(name string) limits.Check { return onErrorOf(window(name, 5), limits.OnErrorAllow) }
	local := func(name string) limits.Check { return onErrorOf(window(name, 5), limits.OnErrorLocal) }
	deny := func(name string) limits.Check { return onErrorOf(window(name, 5), limits.OnErrorDeny) }
	type c = []limits.Check

	// each alone
	check(c{allow("a")}, false, "", "admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", "X-Authz-Degraded: allow")
	check(c{local("a")}, false, "a", "admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", "X-Authz-Degraded: local")
	check(c{deny("a")}, false, "", "unavailable", "X-Authz-Status: 503", "X-Authz-Limit: a", "X-Authz-Degraded: deny", "Retry-After: 1")
	// together: the strictest
	check(c{allow("a"), local("b")}, false, "b", "admitted", "X-Authz-Status: 200", "X-Authz-Limit: b", "X-Authz-Degraded: local")
	check(c{allow("a"), local("b"), deny("c"), deny("d")}, false, "b",
		"unavailable", "X-Authz-Status: 503", "X-Authz-Limit: c", "X-Authz-Degraded: deny", "Retry-After: 1")
	// what a client can cause opens nothing
	check(c{allow("a")}, true, "a", "admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", "X-Authz-Degraded: local")
	// shadows do not degrade, but go on counting
	check(c{shadow(deny("a")), shadow(allow("b")), shadow(local("c"))}, false, "c", "admitted", "X-Authz-Status: 200")
	check(c{allow("a"), shadow(local("b"))}, false, "b", "admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", "X-Authz-Degraded: allow")
}

func TestALocalDecisionIsByTheShare(t *testing.T) {
	c := window("a", 5)
	c.Rate.Share = &limits.Rate{Count: 2, WindowUS: 60 * second}
	local, _ := decision.Degrade([]limits.Check{c}, nil, false)
	if local[0].Rate != c.Rate.Share || c.Rate.Count != 5 {
		t.Errorf("asked with %+v, want the share", local[0].Rate)
	}
}

func TestHeadersComeInTheStyleAskedFor(t *testing.T) {
	check := func(o headerStyle, c limits.Check, r store.Result, want ...string) {
		t.Helper()
		if got := o.text(decision.Decide([]limits.Check{c}, []store.Result{r})); got != strings.Join(want, "\n") {
			t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
	}
	legacy, both := headerStyle{legacy: true}, headerStyle{ietf: true, legacy: true}
	check(legacy, window("a", 5), yes(4, 59*second),
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: 59")
	check(legacy, window("a", 5), no(0, -1),
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 0")
	check(both, window("a", 5), no(0, 9*second),
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "Retry-After: 9", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=0;t=9`,
		"X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 9")
	// --retry-after-max bounds t and Reset too: they are the same promise
	both.retryAfterMax = 8
	check(both, window("a", 5), no(0, 9*second),
		"limited", "X-Authz-Status: 429", "X-Authz-Limit: a", "Retry-After: 8", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=0;t=8`,
		"X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: 8")
	check(both, window("a", 5), yes(1, 9*second),
		"admitted", "X-Authz-Status: 200", "X-Authz-Limit: a", `RateLimit-Policy: "a";q=5;w=60`, `RateLimit: "a";r=1;t=9`,
		"X-RateLimit-Limit: 5", "X-RateLimit-Remaining: 1", "X-RateLimit-Reset: 9")
}

func TestTheLargestAnswerIsUnder1KB(t *testing.T) {
	c := window(strings.Repeat("n", 64), largestCount+1)
	d := decision.Decide([]limits.Check{c}, []store.Result{no(largestCount+1, 366*86400*second)})
	d.Degraded = decision.ByLocal
	var h fasthttp.ResponseHeader
	h.SetConnectionClose()
	(headerStyle{ietf: true, legacy: true}).set(&h, &d, nil)
	if n := len(h.String()); n > 800 {
		t.Errorf("%d bytes of headers, want well under 1024:\n%s", n, h.String())
	}
}

func names(checks []limits.Check) string {
	var all []string
	for _, c := range checks {
		all = append(all, c.Limit.Name)
	}
	return strings.Join(all, " ")
}
