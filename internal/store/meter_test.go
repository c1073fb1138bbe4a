package store

import (
	"context"
	"math/rand/v2"
	"testing"

	"authz/limits"
)

// A meter uses of a rate what the store would have charged, for every algorithm, until nothing more can be counted.
func TestAMeterCountsAsTheStoreDoes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, a := range limits.Algorithms {
		for range 50 {
			rate := limits.NewRate(a, 1+random.Int64N(50), 1000*(1+random.Int64N(5000)), nil)
			if a.IsBucket() {
				rate = limits.NewRate(a, rate.Count, rate.WindowUS, new(1+random.Int64N(20)))
			}
			big := Roomiest(a, rate)
			if big.Size(a) != rate.MaxSize(a) || big.N != rate.N || big.W != rate.W {
				t.Fatalf("%v: %+v of %+v, want the largest that gains alike", a, big, rate)
			}
			c := limits.Check{Limit: &limits.Limit{Algorithm: a}, Rate: big, Key: []byte("k")}
			memory, m, nowUS := NewReplayMemory(10), new(Meter), int64(1e15)
			for range 200 {
				nowUS += random.Int64N(rate.WindowUS / 4)
				c.Cost = 1 + random.Int64N(30)
				results, err := memory.Take(context.Background(), nowUS, []limits.Check{c}, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				used, ok := m.Charge(a, big, c.Cost, nowUS)
				if a.IsBucket() {
					used = ceilDiv(used, big.W)
				}
				if want := big.Size(a) - results[0].Remaining; used != want || ok != results[0].Allowed {
					t.Fatalf("%v %s: %d used, ok %v, want %d, %v", a, rate, used, ok, want, results[0].Allowed)
				}
			}
		}
	}
}
