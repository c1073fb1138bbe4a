package prove

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"authz/internal/human"
	"authz/internal/store"
	"authz/limits"
)

func newPromise(t *testing.T, algorithm, rate string, burst int64) *promise {
	t.Helper()
	a, err := algorithmOf(algorithm)
	if err != nil {
		t.Fatal(err)
	}
	r, err := limits.ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	return promiseOf(a, limits.NewRate(a, r.Count, r.WindowUS, &burst))
}

// spansOf reads "5x0-10 20-30": five spans from 0 to 10 ms, and one from 20 to 30 ms.
func spansOf(t *testing.T, text string) (all []span) {
	t.Helper()
	for _, word := range strings.Fields(text) {
		times, fromMS, toMS := 1, int64(0), int64(0)
		if n, _ := fmt.Sscanf(word, "%dx%d-%d", &times, &fromMS, &toMS); n != 3 {
			times = 1
			if _, err := fmt.Sscanf(word, "%d-%d", &fromMS, &toMS); err != nil {
				t.Fatalf("%s: %v", word, err)
			}
		}
		for range times {
			all = append(all, span{fromMS * 1000, toMS * 1000})
		}
	}
	return all
}

func TestAJudgmentIsWhatObservationsProve(t *testing.T) {
	judge := func(algorithm, rate string, burst int64, spans, want string) {
		t.Helper()
		p := newPromise(t, algorithm, rate, burst)
		j := p.judge(spansOf(t, spans))
		got := fmt.Sprintf("%d within %s: ", j.most, human.Micros(j.fullest.lengthUS()))
		if j.breach == nil {
			got += "held"
		} else {
			got += p.broken(j.breach)
		}
		if got != want {
			t.Errorf("%s %s: %s\ngot  %s\nwant %s", algorithm, rate, spans, got, want)
		}
	}
	// Five at once are what was promised, six are not, in whatever order they came.
	judge("sliding_window", "5/s", 0, "", "0 within 0s: held")
	judge("sliding_window", "5/s", 0, "5x0-10", "5 within 10ms: held")
	judge("sliding_window", "5/s", 0, "990-994 5x0-10", "6 within 994ms: 6 were admitted within 994ms, where sliding_window, 5/s promises 5 at most")
	// A window later there may be more; a thousandth and 3 ms sooner too, since clocks differ.
	judge("sliding_window", "5/s", 0, "5x0-10 996-997", "5 within 10ms: held")
	judge("sliding_window", "5/s", 0, "5x0-10 5x1000-1010 5x2000-2010", "5 within 10ms: held")
	judge("sliding_window", "5/s", 0, "5x0-10 6x1000-1010 5x1900-1910", "11 within 910ms: 11 were admitted within 910ms, where sliding_window, 5/s promises 5 at most")
	// Eleven in less than two windows, of which no window holds six for certain.
	judge("sliding_window", "5/s", 0, "4x0-1 3x0-1500 4x1499-1500", "4 within 1ms: 11 were admitted within 1.5s, where sliding_window, 5/s promises 10 at most")
	// What took longer than a window can have been at any time in it.
	judge("sliding_window", "5/s", 0, "100x0-20000", "0 within 0s: held")
	judge("sliding_window", "5/s", 0, "5x0-10 5x5-1006", "5 within 10ms: held")

	// A fixed window admits twice its count around a boundary, wherever that is; not more, and not at two phases.
	judge("fixed_window", "5/s", 0, "5x470-475 5x500-505", "10 within 35ms: held")
	judge("fixed_window", "5/s", 0, "5x470-475 6x500-505", "11 within 35ms: 11 were admitted within 35ms, where fixed_window, 5/s promises 10 at most")
	judge("fixed_window", "5/s", 0, "5x470-475 5x500-505 5x1500-1505", "10 within 35ms: held")
	judge("fixed_window", "5/s", 0, "5x470-475 5x500-505 5x1270-1275",
		"15 within 805ms: 15 were admitted within 805ms, where fixed_window, 5/s promises 10 at most")
	judge("fixed_window", "5/s", 0, "5x470-475 5x500-505 5x3270-3275 5x3300-3305",
		"10 within 35ms: 10 were admitted in one window of 1s, wherever such windows begin, where fixed_window, 5/s promises 5 at most")
	judge("fixed_window", "5/s", 0, "5x400-405 5x500-505 4x3430-3435 4x3480-3485", "10 within 105ms: held")

	// A sliding counter may have been full at the end of the window before.
	judge("sliding_counter", "10/s", 0, "10x0-10 5x500-510", "15 within 510ms: held")
	judge("sliding_counter", "10/s", 0, "10x0-10 5x300-310", "15 within 310ms: 15 were admitted within 310ms, where sliding_counter, 10/s promises 13 at most")

	judge("token_bucket", "10/s", 5, "5x0-10 5x500-510", "10 within 510ms: held")
	judge("token_bucket", "10/s", 5, "5x0-10 6x400-410", "11 within 410ms: 11 were admitted within 410ms, where token_bucket, 10/s, burst 5 promises 9 at most")
	judge("token_bucket", "3/s", 1, "0-1 330-331", "2 within 331ms: held")
	judge("token_bucket", "3/s", 1, "0-1 328-329", "2 within 329ms: 2 were admitted within 329ms, where token_bucket, 3/s, burst 1 promises 1 at most")

	// A leaky bucket's answers are spaced, since they are held.
	judge("leaky_bucket", "10/s", 4, "0-1 0-101 0-201 0-301 0-401", "5 within 401ms: held")
	judge("leaky_bucket", "10/s", 4, "6x0-10", "6 within 10ms: 6 were admitted within 10ms, where leaky_bucket, 10/s, burst 4 promises 5 at most")
	judge("leaky_bucket", "10/s", 4, "5x0-10", "5 within 10ms: 5 that were admitted were answered within 10ms, where leaky_bucket, 10/s, burst 4 promises 1 at most")
}

// A limiter that holds is never blamed, however slow the way to it is, with a clock that is a thousandth
// fast and in milliseconds; one that admits twice as many is, by a client that is near.
func TestOnlyABrokenPromiseIsBlamed(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter"} {
		blamed := 0
		for seed := range uint64(40) {
			p := newPromise(t, algorithm, "7/s", 3)
			for _, slowUS := range []int64{100, 20_000, 300_000, 3_000_000} {
				if j := p.judge(observed(t, p, seed, slowUS)); j.breach != nil {
					t.Errorf("%s, seed %d, answers within %dus: %s", algorithm, seed, slowUS, p.broken(j.breach))
				}
			}
			half := newPromise(t, algorithm, "3/s", 1)
			if half.judge(observed(t, p, seed, 100)).breach != nil {
				blamed++
			}
		}
		if blamed != 40 {
			t.Errorf("%s: %d of 40 were blamed that admit twice as many as they say", algorithm, blamed)
		}
	}
}

// observed is what a client sees of random requests that the store admits.
func observed(t *testing.T, p *promise, seed uint64, slowUS int64) (seen []span) {
	t.Helper()
	r, memory := rand.New(rand.NewPCG(seed, 6)), store.NewMemory(10)
	check := limits.Check{Limit: &limits.Limit{Algorithm: p.algorithm}, Rate: p.rate, Key: []byte("k"), Cost: 1}
	startUS := int64(1767225600e6) + r.Int64N(1e6)
	for atUS := int64(0); atUS < 6e6; {
		switch r.IntN(4) {
		case 0:
			atUS += r.Int64N(300_000)
		case 1:
			atUS += r.Int64N(30_000)
		}
		clockUS := (startUS + atUS + atUS/1000) / 1000 * 1000
		results, err := memory.Take(context.Background(), clockUS, []limits.Check{check}, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		if results[0].Allowed {
			seen = append(seen, span{atUS - r.Int64N(slowUS), atUS + results[0].WaitUS + 1 + r.Int64N(slowUS)})
		}
		atUS++
	}
	return seen
}

func TestANewKeyHasItsInitialAndTheRate(t *testing.T) {
	check := func(want, spans string) {
		t.Helper()
		p := newPromise(t, "token_bucket", "10/s", 20)
		p.rate.Initial = 4
		got := "well"
		if b := p.warm(0, spansOf(t, spans)); b != nil {
			got = p.broken(b)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", spans, got, want)
		}
	}
	const numbers = ", where token_bucket, 10/s, burst 20, of which a new key has 4, promises "
	check("well", "4x0-10")
	check("5 of a new key were admitted within 10ms"+numbers+"4 at most", "5x0-10")
	check("well", "4x0-10 110-120")
	check("6 of a new key were admitted within 120ms"+numbers+"5 at most", "5x0-120 115-118")
	check("well", "4x0-10 20x1800-2000") // it is full by then
	check("25 of a new key were admitted within 2s"+numbers+"24 at most", "4x0-10 21x1800-2000")
	check("well", "")
}
