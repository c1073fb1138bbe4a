package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

var algorithms = []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter"}

// A testStore is an empty store of either kind.
type testStore struct {
	store.Store
	server *redisServer // nil: Memory
}

// bothStores runs a test on either kind.
func bothStores(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Run("memory", func(t *testing.T) { test(t, testStore{store.NewMemory(100000), nil}) })
	t.Run("redis", func(t *testing.T) {
		r := startRedis(t)
		test(t, testStore{openRedis(t, r), r})
	})
}

// An arrival is one request at a time of its own.
type arrival struct{ atUS, cost int64 }

// admittedOf sends random arrivals to a limit, seeded so that a failure can be repeated, and
// returns those that were admitted. Bursts and pauses are among them.
func admittedOf(t *testing.T, s store.Store, l *limits.Limit, seed uint64, steps int) (in []arrival) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 99))
	take, nowUS := storeTaker(s), int64(1767225600e6)
	key := fmt.Sprint(l.Name, seed)
	for range steps {
		switch r.IntN(10) {
		case 0:
			nowUS += r.Int64N(2 * l.Rate.WindowUS)
		case 1, 2, 3:
			nowUS += r.Int64N(l.Rate.WindowUS / l.Rate.Count)
		case 4, 5:
			nowUS++
		}
		c := check(l, key, 1+r.Int64N(3))
		if take(t, nowUS, []limits.Check{c}, false)[0].Allowed {
			in = append(in, arrival{nowUS, c.Cost})
		}
	}
	if len(in) == steps || len(in) == 0 {
		t.Fatalf("seed %d: %d of %d admitted, want some refused", seed, len(in), steps)
	}
	return in
}

func TestNoIntervalOfAWindowHoldsMoreThanTheSlidingLimit(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for seed := range uint64(8) {
			l := newLimit(t, "sw", "sliding_window", 3+int64(seed)*4, 1e6, 0)
			in := admittedOf(t, s, l, seed, 400)
			for i := range in { // the intervals that end with an arrival are the fullest
				var sum int64
				for j := i; j >= 0 && in[j].atUS > in[i].atUS-l.Rate.WindowUS; j-- {
					sum += in[j].cost
				}
				if sum > l.Rate.Count {
					t.Fatalf("seed %d: %d admitted in the window that ends at %d, want %d at most", seed, sum, in[i].atUS, l.Rate.Count)
				}
			}
		}
	})
}

// In whole numbers: admitted cost * window <= burst * window + limit * time.
func TestABucketNeverAdmitsMoreThanBurstAndRate(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for seed := range uint64(8) {
			for _, algorithm := range []string{"token_bucket", "leaky_bucket"} {
				l := newLimit(t, algorithm, algorithm, 7, 1e6, 4+int64(seed)*3)
				size := l.Rate.Capacity / l.Rate.W
				in := admittedOf(t, s, l, seed, 400)
				for i := range in {
					var sum int64
					for j := i; j < len(in); j++ {
						sum += in[j].cost
						if sum*l.Rate.WindowUS > size*l.Rate.WindowUS+l.Rate.Count*(in[j].atUS-in[i].atUS) {
							t.Fatalf("seed %d, %s: %d admitted from %d to %d, more than %d and the rate",
								seed, algorithm, sum, in[i].atUS, in[j].atUS, size)
						}
					}
				}
			}
		}
	})
}

// An aligned window counts exactly; the sliding counter too, within each window.
func TestAnAlignedWindowNeverHoldsMoreThanTheLimit(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for seed := range uint64(8) {
			for _, algorithm := range []string{"fixed_window", "sliding_counter"} {
				l := newLimit(t, algorithm, algorithm, 5+int64(seed), 1e6, 0)
				sums := map[int64]int64{}
				for _, a := range admittedOf(t, s, l, seed, 400) {
					sums[a.atUS/l.Rate.WindowUS] += a.cost
				}
				for window, sum := range sums {
					if sum > l.Rate.Count {
						t.Fatalf("seed %d, %s: %d admitted in window %d, want %d at most", seed, algorithm, sum, window, l.Rate.Count)
					}
				}
			}
		}
	})
}

// As many as the limit says, however many ask at once, through two instances.
func TestConcurrentTakersAdmitExactlyTheLimit(t *testing.T) {
	r := startRedis(t)
	two := map[string][2]store.Store{"redis": {openRedis(t, r), openRedis(t, r)}}
	m := store.NewMemory(1000)
	two["memory"] = [2]store.Store{m, m}
	for name, stores := range two {
		for _, algorithm := range algorithms {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				// A window that does not end while the test runs; 100 from 64 takers.
				l := newLimit(t, algorithm, algorithm, 100, 366*86400e6, 100)
				want := int64(100)
				if algorithm == "leaky_bucket" {
					want++
				}
				if got := takeAtOnce(t, stores, l, 64, 4); got != want {
					t.Errorf("%d admitted, want %d", got, want)
				}
			})
		}
	}
}

// takeAtOnce asks for 1 from many takers, each several times and by the store's own clock, and
// returns how many were admitted.
func takeAtOnce(t *testing.T, stores [2]store.Store, l *limits.Limit, takers, times int) (n int64) {
	t.Helper()
	var wg sync.WaitGroup
	got := make([]int64, takers)
	for g := range takers {
		wg.Go(func() {
			for range times {
				r, err := stores[g%2].Take(context.Background(), 0, []limits.Check{check(l, "u", 1)}, false, nil)
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

// Memory and Redis give the same answers to the microsecond: random requests of one to four checks
// of all kinds, shadows, peeks, clocks that step back, and limits that are edited on the way.
func TestMemoryAndRedisAgreeStepByStep(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	for seed := range uint64(40) {
		r.flush(t)
		agree(t, seed, 150, storeTaker(s), storeTaker(store.NewMemory(1000)))
	}
}

func agree(t *testing.T, seed uint64, steps int, one, other taker) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(n ...int64) int64 { return n[r.IntN(len(n))] }
	make1 := func(i int) *limits.Limit {
		algorithm := algorithms[i%len(algorithms)]
		window := pick(1000, 7001, 1e6, 60e6, 86400e6)
		l := newLimit(t, fmt.Sprint("c", i), algorithm, pick(1, 2, 5, 7, 13, 100), window, pick(1, 3, 20))
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
			checks = append(checks, check(now[i], string("ab"[r.IntN(2)]), pick(1, 1, 1, 2, 3, 15)))
		}
		peek := r.IntN(10) == 0
		a, b := rows(one(t, atUS, checks, peek)), rows(other(t, atUS, checks, peek))
		if fmt.Sprint(a) != fmt.Sprint(b) {
			text := ""
			for i, c := range checks {
				text += fmt.Sprintf("\n%s cost %d %+v: %v and %v", c.Limit.Algorithm, c.Cost, *c.Rate, a[i], b[i])
			}
			t.Fatalf("seed %d, step %d at %d, peek %v:%s", seed, step, atUS, peek, text)
		}
	}
}
