package prove

import (
	"cmp"
	"slices"

	"authz/limits"
)

// A span is the time in which something has happened, in microseconds since the run began: from the moment
// before a request was sent to the moment when its answer had come. The limiter decided somewhere in
// between, and nobody can see when.
type span struct{ fromUS, toUS int64 }

func (s span) lengthUS() int64 { return s.toUS - s.fromUS }

// slackUS is how far apart two clocks may say that two things happened which are this far apart by ours: a
// thousandth, more than clocks are slewed by, and 3 ms, for limiters and timers that count milliseconds. A
// clock that is set while we look is not allowed for.
func slackUS(lengthUS int64) int64 { return 3000 + lengthUS/1000 }

// A bound is the most that may be admitted in any interval of a length: some at once, then count a window,
// evenly or, if stepwise, all of a window's count when a whole window has passed.
type bound struct {
	atOnce, count, windowUS int64
	stepwise                bool
}

// shortestUS is the shortest interval that may hold n.
func (b *bound) shortestUS(n int64) int64 {
	rest := max(0, n-b.atOnce)
	if b.stepwise {
		return (rest + b.count - 1) / b.count * b.windowUS
	}
	return (rest*b.windowUS + b.count - 1) / b.count
}

// most is how many an interval may hold that holds too many: only there is it sure to fit 64 bits.
func (b *bound) most(lengthUS int64) int64 {
	if b.stepwise {
		return b.atOnce + lengthUS/b.windowUS*b.count
	}
	return b.atOnce + lengthUS*b.count/b.windowUS
}

// A promise is what an algorithm and its numbers say of the requests that they admit.
type promise struct {
	algorithm limits.Algorithm
	rate      *limits.Rate
	admitted  bound
	aligned   bool   // no aligned window holds more than the count
	answered  *bound // of the answers to what was admitted, nil if nothing is promised
}

// promiseOf says what redisscripts/README.md and the property tests of the store say:
//
//   - sliding_window: count in any interval shorter than a window, and as many again for each whole window.
//   - fixed_window: count in each aligned window, of which an interval shorter than a window may meet two.
//   - sliding_counter: count in each aligned window. It takes the window before as evenly filled, where all of it
//     may have come at its end: then, with a share e of the next one gone, count*e of the next are let in
//     after the count of the one before. So count at once, and count a window.
//   - token_bucket: burst at once, and count a window. leaky_bucket: one more at once, of which the others are
//     held, so that answers leave window/count apart.
func promiseOf(a limits.Algorithm, r *limits.Rate) *promise {
	p := &promise{algorithm: a, rate: r, admitted: bound{atOnce: r.Size(a), count: r.Count, windowUS: r.WindowUS}}
	switch a {
	case limits.FixedWindow:
		p.admitted.atOnce = 2 * r.Count
		p.admitted.stepwise, p.aligned = true, true
	case limits.SlidingWindow:
		p.admitted.stepwise = true
	case limits.SlidingCounter:
		p.aligned = true
	case limits.LeakyBucket:
		p.answered = &bound{atOnce: 1, count: r.Count, windowUS: r.WindowUS}
	}
	return p
}

// mostInAWindow is the most that may be admitted in an interval shorter than a window.
func (p *promise) mostInAWindow() int64 {
	if p.admitted.stepwise {
		return p.admitted.atOnce
	}
	return p.admitted.atOnce + p.rate.Count
}

// A judgment is what the observations of one key prove, whatever the instants were that they do not show.
// Only admissions whose whole span lies in an interval are counted in it. So a slow client or network makes
// a judgment milder, never wrong.
type judgment struct {
	most    int64 // admissions in an interval shorter than a window
	fullest span  // that interval
	breach  *breach
}

// A breach is an interval that holds more than was promised.
type breach struct {
	kind             breachKind
	within           span // not for tooManyAligned
	number, promised int64
}

type breachKind uint8

const (
	tooManyAdmitted breachKind = iota
	tooManyAligned
	tooManyAnswered // sooner than they should have left
	tooManyUnused   // since the key's first request
)

// judge judges by the spans of all admissions of one key.
func (p *promise) judge(admitted []span) (j judgment) {
	intervals(admitted, func(within span, n int64) {
		if n > j.most && within.lengthUS()+slackUS(within.lengthUS()) < p.rate.WindowUS {
			j.most, j.fullest = n, within
		}
	})
	if j.breach = p.admitted.breach(tooManyAdmitted, admitted); j.breach != nil {
		return j
	}
	if p.answered != nil {
		j.breach = p.answered.breach(tooManyAnswered, admitted)
	}
	if p.aligned {
		if n := mostAligned(admitted, p.rate.WindowUS); n > p.rate.Count {
			j.breach = &breach{kind: tooManyAligned, number: n, promised: p.rate.Count}
		}
	}
	return j
}

// breach is the interval that passes the bound by most, nil if none does.
func (b *bound) breach(kind breachKind, spans []span) (worst *breach) {
	shortestUS := make([]int64, len(spans)+1) // there are many more intervals than numbers
	for n := range shortestUS {
		shortestUS[n] = b.shortestUS(int64(n))
	}
	var excess int64
	intervals(spans, func(within span, n int64) {
		lengthUS := within.lengthUS() + slackUS(within.lengthUS())
		if lengthUS >= shortestUS[n] || n-b.atOnce <= excess {
			return
		}
		if promised := b.most(lengthUS); n-promised > excess {
			excess, worst = n-promised, &breach{kind, within, n, promised}
		}
	})
	return worst
}

// warm is a breach if a new key was admitted more, since its first request was sent, than its initial and the rate.
func (p *promise) warm(firstUS int64, admitted []span) (worst *breach) {
	b := bound{atOnce: p.unused(), count: p.rate.Count, windowUS: p.rate.WindowUS}
	for i, s := range slices.SortedFunc(slices.Values(admitted), func(a, b span) int { return cmp.Compare(a.toUS, b.toUS) }) {
		within, n := span{firstUS, s.toUS}, int64(i+1)
		lengthUS := within.lengthUS() + slackUS(within.lengthUS())
		if lengthUS >= b.shortestUS(n) {
			continue
		}
		if promised := b.most(lengthUS); worst == nil || n-promised > worst.number-worst.promised {
			worst = &breach{tooManyUnused, within, n, promised}
		}
	}
	return worst
}

// intervals calls f with every interval that begins as a request is sent and ends as an answer comes, and
// with how many spans lie wholly in it. No other interval holds more in less time.
func intervals(spans []span, f func(within span, n int64)) {
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(b.fromUS, a.fromUS) })
	var endsUS []int64 // of those that begin no sooner
	for _, s := range spans {
		i, _ := slices.BinarySearch(endsUS, s.toUS)
		endsUS = slices.Insert(endsUS, i, s.toUS)
		for n := i; n < len(endsUS); n++ {
			f(span{s.fromUS, endsUS[n]}, int64(n+1))
		}
	}
}

// mostAligned is the most spans that one aligned window holds, by the beginning of windows that makes it the
// fewest: the limiter's clock need not be ours. It moves the beginning through a whole window, and counts
// anew wherever a span begins to lie in two windows, or no longer does.
func mostAligned(spans []span, windowUS int64) int64 {
	if len(spans) == 0 {
		return 0
	}
	run := spans[0]
	for _, s := range spans {
		run = span{min(run.fromUS, s.fromUS), max(run.toUS, s.toUS)}
	}
	slack := slackUS(run.lengthUS())
	type edge struct {
		atUS      int64 // into a window
		span, end int
	}
	var edges []edge
	windows := make([][2]int64, len(spans)) // in which a span begins and ends, by number
	counts := make([]int64, (run.lengthUS()+2*slack)/windowUS+2)
	add := func(i int, by int64) {
		if windows[i][0] == windows[i][1] {
			counts[windows[i][0]] += by
		}
	}
	for i, s := range spans {
		for end, atUS := range [2]int64{s.fromUS - run.fromUS, s.toUS - run.fromUS + 2*slack} {
			windows[i][end] = atUS/windowUS + 1 // 0 is the window that a later beginning leaves before it
			edges = append(edges, edge{atUS % windowUS, i, end})
		}
		add(i, 1)
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Compare(a.atUS, b.atUS) })
	fewest := slices.Max(counts)
	for i, e := range edges {
		add(e.span, -1)
		windows[e.span][e.end]--
		add(e.span, 1)
		if i+1 == len(edges) || edges[i+1].atUS > e.atUS {
			fewest = min(fewest, slices.Max(counts))
		}
	}
	return fewest
}
