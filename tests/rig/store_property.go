package rig

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

var Algorithms = []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter"}

// TakeAtOnce asks for 1 from many takers, each several times and by the store's own clock, and
// returns how many were admitted.
func TakeAtOnce(t *testing.T, stores [2]store.Store, l *limits.Limit, takers, times int) (n int64) {
	t.Helper()
	var wg sync.WaitGroup
	got := make([]int64, takers)
	for g := range takers {
		wg.Go(func() {
			for range times {
				r, err := stores[g%2].Take(context.Background(), 0, []limits.Check{Check(l, "u", 1)}, false, nil)
				if err != nil {
					t.Errorf("taker %d: %v", g, err)
				} else if r[0].Allowed {
					got[g]++
				}
			}
		})
	}
	wg.Wait()
	for _, g := range got {
		n += g
	}
	return n
}

func Agree(t *testing.T, seed uint64, steps int, one, other Taker) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	make1 := func(i int) *limits.Limit {
		algorithm := Algorithms[i%len(Algorithms)]
		window := pick(1000, 7001, 1e6, 60e6, 86400e6)
		l := NewLimit(t, fmt.Sprint("c", i), algorithm, pick(1, 2, 5, 7, 13, 100), window, pick(1, 3, 20))
		l.Shadow = r.IntN(5) == 0
		if algorithm == "fixed_window" || algorithm == "sliding_counter" {
			l.Rate.OffsetUS = pick(0, 0, window/3)
		}
		return l
	}
	now := make([]*limits.Limit, 7)
	for i := range now {
		now[i] = make1(i)
	}
	atUS := int64(1767225600e6) + r.Int64N(86400e6)
	for step := range steps {
		switch w := now[r.IntN(len(now))].Rate.WindowUS; r.IntN(12) {
		case 0:
			atUS -= r.Int64N(w)
		case 1:
			atUS -= pick(w, 2*w, 3600e6) + r.Int64N(w)
		case 2:
			atUS += r.Int64N(3 * w)
		case 3, 4, 5, 6:
			atUS += r.Int64N(w/3 + 1)
		case 7:
			i := r.IntN(len(now))
			now[i] = make1(i)
		}
		checks := []limits.Check{}
		for _, i := range r.Perm(len(now))[:1+r.IntN(4)] {
			checks = append(checks, Check(now[i], string("ab"[r.IntN(2)]), pick(1, 1, 1, 2, 3, 15)))
		}
		peek := r.IntN(10) == 0
		a, b := Rows(one(t, atUS, checks, peek)), Rows(other(t, atUS, checks, peek))
		if fmt.Sprint(a) != fmt.Sprint(b) {
			text := ""
			for i, c := range checks {
				text += fmt.Sprintf("\n%s cost %d %+v: %v and %v", c.Limit.Algorithm, c.Cost, *c.Rate, a[i], b[i])
			}
			t.Fatalf("seed %d, step %d at %d, peek %v:%s", seed, step, atUS, peek, text)
		}
	}
}
