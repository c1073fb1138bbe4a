package rig

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/redis/go-redis/v9"

	"authz/limits"
)

const Most = 1<<53 - 1

// UpTo is a random number from 1 to n, of any size up to n's alike.
func UpTo(r *rand.Rand, n int64) int64 {
	for {
		if v := 1 + r.Int64N(1<<(1+r.IntN(53))); v <= n {
			return v
		}
	}
}

// RandomState stores something that the limit could have left, or its neighbour before an edit,
// a while ago or a little ahead of now.
func (s *Scripts) RandomState(r *rand.Rand, c limits.Check) {
	ctx, key := context.Background(), string(c.Key)
	s.Del(ctx, key)
	rate, number := c.Rate, (ScriptsNow-c.Rate.OffsetUS)/c.Rate.WindowUS+r.Int64N(4)-2
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		w, refillUS := rate.W, rate.Capacity/rate.N
		if r.IntN(4) == 0 {
			w = UpTo(r, Most)
		}
		atUS := ScriptsNow - UpTo(r, refillUS+1)
		if r.IntN(4) == 0 {
			atUS = ScriptsNow + UpTo(r, refillUS+1)
		}
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d", UpTo(r, rate.Capacity), w, atUS), 0)
	case limits.FixedWindow:
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d:%d", number, rate.WindowUS, c.Rate.OffsetUS, UpTo(r, rate.Count)), 0)
	case limits.SlidingCounter:
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d:%d:%d", number, rate.WindowUS, c.Rate.OffsetUS,
			UpTo(r, rate.Count), UpTo(r, rate.Count)), 0)
	default:
		for i := range r.Int64N(rate.Count + 2) {
			atUS := ScriptsNow + r.Int64N(2*rate.WindowUS) - rate.WindowUS
			s.ZAdd(ctx, key, redis.Z{Score: float64(atUS), Member: i})
		}
	}
}
