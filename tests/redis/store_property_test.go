package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// A testStore is an empty store of either kind.
type testStore struct {
	store.Store
	server *rig.RedisServer // nil: Memory
}

// bothStores runs a test on either kind.
func bothStores(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Run("memory", func(t *testing.T) { test(t, testStore{store.NewMemory(100000), nil}) })
	t.Run("redis", func(t *testing.T) {
		r := rig.StartRedis(t)
		test(t, testStore{rig.OpenRedis(t, r), r})
	})
}

// An arrival is one request at a time of its own.
type arrival struct{ atUS, cost int64 }

// admittedOf sends random arrivals to a limit, seeded so that a failure can be repeated, and
// returns those that were admitted. Bursts and pauses are among them.
func admittedOf(t *testing.T, s store.Store, l *limits.Limit, seed uint64, steps int) (in []arrival) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 99))
	take, nowUS := rig.StoreTaker(s), int64(1767225600e6)
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
		c := rig.Check(l, key, 1+r.Int64N(3))
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
			l := rig.NewLimit(t, "sw", "sliding_window", 3+int64(seed)*4, 1e6, 0)
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
				l := rig.NewLimit(t, algorithm, algorithm, 7, 1e6, 4+int64(seed)*3)
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
				l := rig.NewLimit(t, algorithm, algorithm, 5+int64(seed), 1e6, 0)
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
	r := rig.StartRedis(t)
	two := map[string][2]store.Store{"redis": {rig.OpenRedis(t, r), rig.OpenRedis(t, r)}}
	m := store.NewMemory(1000)
	two["memory"] = [2]store.Store{m, m}
	for name, stores := range two {
		for _, algorithm := range rig.Algorithms {
			t.Run(name+"/"+algorithm, func(t *testing.T) {
				// A window that does not end while the test runs; 100 from 64 takers.
				l := rig.NewLimit(t, algorithm, algorithm, 100, 366*86400e6, 100)
				want := int64(100)
				if algorithm == "leaky_bucket" {
					want++
				}
				if got := rig.TakeAtOnce(t, stores, l, 64, 4); got != want {
					t.Errorf("%d admitted, want %d", got, want)
				}
			})
		}
	}
}

// Memory and Redis give the same answers to the microsecond: random requests of one to four checks
// of all kinds, shadows, peeks, clocks that step back, and limits that are edited on the way.
func TestMemoryAndRedisAgreeStepByStep(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	for seed := range uint64(40) {
		r.Flush(t)
		rig.Agree(t, seed, 150, rig.StoreTaker(s), rig.StoreTaker(store.NewMemory(1000)))
	}
}
