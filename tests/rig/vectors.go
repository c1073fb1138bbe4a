package rig

import (
	"context"
	"fmt"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

// A body is something that takes: it must give the answers of every file in vectors/take.
type body struct {
	Name string
	// start starts it; what comes back empties it and makes a taker of it.
	Start func(t *testing.T) (empty func(t *testing.T) Taker)
}

var Bodies = []body{
	{"memory", func(*testing.T) func(*testing.T) Taker {
		return func(*testing.T) Taker { return StoreTaker(store.NewMemory(1000)) }
	}},
	{"redis", func(t *testing.T) func(*testing.T) Taker {
		r := StartRedis(t)
		s := OpenRedis(t, r)
		return func(t *testing.T) Taker {
			r.Flush(t)
			return StoreTaker(s)
		}
	}},
	{"cluster", func(t *testing.T) func(*testing.T) Taker {
		c := StartCluster(t)
		s := OpenCluster(t, c)
		return func(t *testing.T) Taker {
			c.Flush(t)
			return StoreTaker(s)
		}
	}},
	{"nginx-redis", packBody("/redis")},
	{"nginx-shdict", packBody("/shdict")},
}

// A Taker decides one request; what it stores outlives the call, and nothing else.
type Taker func(t *testing.T, nowUS int64, checks []limits.Check, peek bool) []store.Result

// StoreTaker is the taker of a Store.
func StoreTaker(s store.Store) Taker {
	return func(t *testing.T, nowUS int64, checks []limits.Check, peek bool) []store.Result {
		t.Helper()
		results, err := s.Take(context.Background(), nowUS, checks, peek, nil)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
}

// NewLimit is a limit as the compiler would make it.
func NewLimit(t testing.TB, name, algorithm string, count, windowUS, burst int64) *limits.Limit {
	t.Helper()
	l := &limits.Limit{Name: name, Rate: limits.Rate{Count: count, WindowUS: windowUS, Burst: burst}}
	for _, a := range limits.Algorithms {
		if a.String() == algorithm {
			l.Algorithm = a
		}
	}
	tokens := burst
	switch l.Algorithm {
	case 0:
		t.Fatalf("%s: algorithm %q, want one of the five", name, algorithm)
	case limits.LeakyBucket:
		tokens++ // the one being served
		fallthrough
	case limits.TokenBucket:
		d, r := count, windowUS
		for r != 0 {
			d, r = r, d%r
		}
		l.Rate.N, l.Rate.W = count/d, windowUS/d
		l.Rate.Capacity = tokens * l.Rate.W
	}
	return l
}

// Check asks a limit for cost on a key of its own.
func Check(l *limits.Limit, key string, cost int64) limits.Check {
	redisKey := fmt.Sprintf("authz:v1:{%s}:%s:%s", key, l.Name, l.Algorithm.Code())
	return limits.Check{Limit: l, Rate: &l.Rate, Key: []byte(redisKey), Cost: cost}
}

// Admitted is what the request is told: no check refuses it but shadows.
func Admitted(checks []limits.Check, results []store.Result) bool {
	for i, r := range results {
		if !r.Allowed && !checks[i].Limit.Shadow {
			return false
		}
	}
	return true
}

// Rows are results as vectors write them.
func Rows(results []store.Result) (out [][4]int64) {
	for _, r := range results {
		row := [4]int64{0, r.Remaining, r.WaitUS, r.ResetUS}
		if r.Allowed {
			row[0] = 1
		}
		out = append(out, row)
	}
	return out
}
