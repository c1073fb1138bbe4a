package faults

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

// A span is when something happened: not before, and not after.
type span struct{ from, to time.Time }

// clockSlack is how far the clocks of two processes of a machine may be apart.
const clockSlack = time.Millisecond

// overrun says by which of the admissions, with no state lost between them, a limit has admitted more than
// it may; "" if it has not.
func overrun(l *limits.Limit, admissions []span) string {
	slices.SortFunc(admissions, func(a, b span) int { return a.to.Compare(b.to) })
	rate := l.Rate
	window := time.Duration(rate.WindowUS) * time.Microsecond
	switch l.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		return overrunBucket(admissions, rate.Size(l.Algorithm), rate.Count, window)
	case limits.SlidingWindow:
		return overrunLog(admissions, rate.Count, window)
	case limits.FixedWindow:
		return overrunAligned(admissions, rate.Count, window, false)
	}
	return overrunAligned(admissions, rate.Count, window, true)
}

// overrunBucket: never more than the capacity and what has come in since.
func overrunBucket(sorted []span, capacity, count int64, window time.Duration) string {
	for j := range sorted {
		from := sorted[j].from
		for i := j; i >= 0 && sorted[j].to.Sub(sorted[i].to) < 20*window; i-- {
			if sorted[i].from.Before(from) {
				from = sorted[i].from
			}
			took := sorted[j].to.Sub(from)
			if most := capacity + int64(took+clockSlack)*count/int64(window); int64(j-i+1) > most {
				return fmt.Sprintf("%d admitted within %v, want %d at most", j-i+1, took, most)
			}
		}
	}
	return ""
}

// overrunLog: never more than the limit in any interval of the window's length.
func overrunLog(sorted []span, limit int64, window time.Duration) string {
	for i := int(limit); i < len(sorted); i++ {
		among := sorted[i-int(limit) : i+1]
		first := slices.MinFunc(among, func(a, b span) int { return a.from.Compare(b.from) })
		if took := sorted[i].to.Sub(first.from); took < window-clockSlack {
			return fmt.Sprintf("%d admitted within %v, want %d at most in %v", len(among), took, limit, window)
		}
	}
	return ""
}

// overrunAligned: never more than the limit in a window that begins at a multiple of its length; weighted,
// with the part of the one before that is still in sight.
func overrunAligned(sorted []span, limit int64, window time.Duration, weighted bool) string {
	inWindow := map[int64][]span{} // that are within one for sure, by the time they ended
	for _, a := range sorted {
		if n := a.from.Add(-clockSlack).UnixNano() / int64(window); n == a.to.Add(clockSlack).UnixNano()/int64(window) {
			inWindow[n] = append(inWindow[n], a)
		}
	}
	for n, here := range inWindow {
		if int64(len(here)) > limit {
			return fmt.Sprintf("%d admitted in one window, want %d at most", len(here), limit)
		}
		if !weighted {
			continue
		}
		before := int64(len(inWindow[n-1]))
		for _, a := range here {
			known := int64(1)
			for _, b := range here {
				if b.to.Before(a.from) {
					known++
				}
			}
			left := int64(window) - (a.to.Add(clockSlack).UnixNano() - n*int64(window))
			if used := float64(before)*float64(left)/float64(window) + float64(known); used > float64(limit)+1e-6 {
				return fmt.Sprintf("%.2f used at an admission, want %d at most", used, limit)
			}
		}
	}
	return ""
}

// withoutLoss parts admissions at the times when Redis has lost what it knew. Those that may have been
// made meanwhile are in no part.
func withoutLoss(admissions, losses []span) [][]span {
	parts := make([][]span, len(losses)+1)
	for _, a := range admissions {
		n := 0
		for n < len(losses) && losses[n].to.Before(a.from) {
			n++
		}
		if n == len(losses) || a.to.Before(losses[n].from) {
			parts[n] = append(parts[n], a)
		}
	}
	return parts
}

// The bounds are those of the store, and one admission more breaks them.
func TestTheBoundsOfTheSoakAreThoseOfTheLimits(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	at := func(ms ...int) (spans []span) {
		for _, ms := range ms {
			when := begin.Add(time.Duration(ms) * time.Millisecond)
			spans = append(spans, span{when.Add(-time.Millisecond), when.Add(time.Millisecond)})
		}
		return spans
	}
	check := func(algorithm string, burst int64, good, bad []span) {
		t.Helper()
		l := rig.NewLimit(t, algorithm, algorithm, 4, 1e6, burst)
		rig.Same(t, algorithm+overrun(l, good), algorithm)
		if overrun(l, bad) == "" {
			t.Errorf("%s: too many are not found", algorithm)
		}
	}
	check("token_bucket", 4, at(2, 4, 6, 8, 258, 508), at(2, 4, 6, 8, 10, 12))
	check("leaky_bucket", 3, at(2, 4, 6, 8, 258, 508), at(2, 4, 6, 8, 10, 12))
	check("sliding_window", 0, at(900, 920, 940, 960, 1903, 1923), at(900, 920, 940, 960, 1800))
	check("fixed_window", 0, at(900, 920, 940, 960, 1010, 1020, 1030, 1040), at(10, 20, 30, 40, 950))
	check("sliding_counter", 0, at(900, 920, 940, 960, 1260, 1510), at(900, 920, 940, 960, 1100))
	check("sliding_counter", 0, at(1500, 1600, 1700), at(10, 20, 30, 40, 950))

	lost := at(1000)
	parts := withoutLoss(at(10, 999, 1001, 1200), lost)
	rig.Same(t, fmt.Sprint(len(parts[0]), len(parts[1])), "1 1")
	if !slices.IsSortedFunc(parts, func(a, b []span) int { return cmp.Compare(a[0].from.UnixNano(), b[0].from.UnixNano()) }) {
		t.Error("the parts are not in order")
	}
}
