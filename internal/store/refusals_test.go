package store

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"authz/internal/testkit"
	"authz/limits"
)

// refusedFor is a check that a store refused, for so long.
func refusedFor(r *Refusals, c limits.Check, sent, wait time.Duration) {
	r.Learn([]limits.Check{c}, []Result{{WaitUS: wait.Microseconds()}}, sent)
}

func TestARefusalIsGivenAgainUntilItsWaitIsOver(t *testing.T) {
	r, t0 := NewRefusals(100), time.Hour
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "a")
	is := func(want, at time.Duration, c limits.Check) {
		t.Helper()
		if got := time.Duration(r.WaitUS(&c, t0+at)) * time.Microsecond; got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	is(0, 0, c)
	refusedFor(r, c, t0, 5*time.Second)
	is(5*time.Second, 0, c)
	is(4*time.Second, time.Second, c)
	is(time.Microsecond, 5*time.Second-time.Microsecond, c)
	is(0, 5*time.Second, c)
	is(0, time.Hour, c)
	refusedFor(r, c, t0+6*time.Second, 2*time.Second) // the next
	is(time.Second, 7*time.Second, c)

	// Nothing is known of another key, of other costs, of a shadow, of other numbers.
	is(0, 7*time.Second, testkit.CheckOf(c.Limit, "b"))
	costly, edited, shadow := c, c, c
	costly.Cost = 2
	is(0, 7*time.Second, costly)
	shadow.Limit = testkit.LimitOf(limits.FixedWindow)
	shadow.Limit.Shadow = true
	is(0, 7*time.Second, shadow)
	for _, edit := range []func(l *limits.Limit){
		func(l *limits.Limit) { l.Rate.Count++ },
		func(l *limits.Limit) { l.Rate.WindowUS++ },
		func(l *limits.Limit) { l.Rate.Burst++ },
		func(l *limits.Limit) { l.Rate.OffsetUS++ },
	} {
		l := testkit.LimitOf(limits.FixedWindow)
		edit(l)
		edited.Limit, edited.Rate = l, &l.Rate
		is(0, 7*time.Second, edited)
	}
	is(time.Second, 7*time.Second, c)
}

// What a schedule changes is asked about again, whatever the numbers are then.
func TestARefusalEndsWithTheNumbersOfItsTime(t *testing.T) {
	r, t0 := NewRefusals(100), time.Hour
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "a")
	is := func(want, at time.Duration) {
		t.Helper()
		if got := time.Duration(r.WaitUS(&c, t0+at)) * time.Microsecond; got != want {
			t.Errorf("at %v: %v, want %v", at, got, want)
		}
	}
	c.LeftUS = 2_000_000
	refusedFor(r, c, t0, 5*time.Second)
	is(5*time.Second, 0)
	is(3*time.Second+time.Microsecond, 2*time.Second-time.Microsecond) // the answer is that of the store
	is(0, 2*time.Second)
	is(0, 3*time.Second)
	refusedFor(r, c, t0+3*time.Second, time.Second)
	is(time.Second, 3*time.Second)
	is(0, 4*time.Second)
}

func TestOnlyRefusalsOfCostOneThatEndAreLearned(t *testing.T) {
	r, now := NewRefusals(100), time.Hour
	l, shadow := testkit.LimitOf(limits.FixedWindow), testkit.LimitOf(limits.FixedWindow)
	shadow.Shadow = true
	checks := []limits.Check{testkit.CheckOf(l, "admitted"), testkit.CheckOf(l, "costly"), testkit.CheckOf(l, "never"), testkit.CheckOf(shadow, "shadow"), testkit.CheckOf(l, "a"), testkit.CheckOf(l, "b")}
	checks[1].Cost = 2
	r.Learn(checks, []Result{{Allowed: true, WaitUS: 9}, {WaitUS: 9}, {WaitUS: Never}, {WaitUS: 9}, {WaitUS: 8}, {WaitUS: 9}}, now)
	for i := range checks {
		checks[i].Cost = 1
		checks[i].Limit, checks[i].Rate = l, &l.Rate
		if got, want := r.WaitUS(&checks[i], now), []int64{0, 0, 0, 0, 8, 9}[i]; got != want {
			t.Errorf("%s: %d, want %d", checks[i].Key, got, want)
		}
	}
	if r.Len() != 2 {
		t.Errorf("%d are remembered, want 2", r.Len())
	}
}

// What was under way when all was forgotten may have been decided before it.
func TestAForgottenRefusalDoesNotComeBack(t *testing.T) {
	r, t0 := NewRefusals(100), time.Hour
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "a")
	refusedFor(r, c, t0, time.Hour)
	r.Forget(t0 + 2*time.Second)
	if r.Len() != 0 || r.WaitUS(&c, t0+2*time.Second) != 0 {
		t.Errorf("%d are remembered after Forget, want none", r.Len())
	}
	refusedFor(r, c, t0+time.Second, time.Hour)
	if got := r.WaitUS(&c, t0+3*time.Second); got != 0 {
		t.Errorf("an answer from before is given for %d us, want not at all", got)
	}
	refusedFor(r, c, t0+3*time.Second, time.Hour)
	if got := r.WaitUS(&c, t0+3*time.Second); got != 3600e6 {
		t.Errorf("an answer from after is given for %d us, want an hour", got)
	}
}

func TestRefusalsAreBoundedAndDoNotAllocate(t *testing.T) {
	r, now := NewRefusals(3000), time.Hour
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "")
	checks, results := []limits.Check{c}, []Result{{WaitUS: 3600e6}}
	n := 0
	flood := func() {
		n++
		checks[0].Key = strconv.AppendInt(checks[0].Key[:0], int64(n), 10)
		r.Learn(checks, results, now)
		if got := r.WaitUS(&checks[0], now); got != 3600e6 {
			t.Fatal(got)
		}
	}
	for range 10000 {
		flood()
	}
	if n := testing.AllocsPerRun(1000, flood); n != 0 {
		t.Errorf("%v allocations a refusal, want 0", n)
	}
	if got := fmt.Sprint(r.Len()); got != "3000" {
		t.Errorf("%s are remembered, want 3000", got)
	}
	// They are over, and go as others come.
	for range 3000 {
		now += time.Hour
		flood()
	}
	if got := r.Len(); got > 100 {
		t.Errorf("%d are remembered, want few: the others are over", got)
	}
}

func BenchmarkRefusals(b *testing.B) {
	r, now := NewRefusals(100000), time.Hour
	var checks []limits.Check
	for i := range 1000 {
		checks = append(checks, testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), fmt.Sprint("authz:v1:{ip=203.0.113.", i, "}:api:fw")))
		refusedFor(r, checks[i], now, time.Hour)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i = (i + 1) % len(checks) {
			r.WaitUS(&checks[i], now)
		}
	})
}
