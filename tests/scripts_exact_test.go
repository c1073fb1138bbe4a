package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"authz/internal/store"
	"authz/limits"

	"github.com/redis/go-redis/v9"
)

const most = 1<<53 - 1

// upTo is a random number from 1 to n, of any size up to n's alike.
func upTo(r *rand.Rand, n int64) int64 {
	for {
		if v := 1 + r.Int64N(1<<(1+r.IntN(53))); v <= n {
			return v
		}
	}
}

// randomLimit is a limit as large as its algorithm takes them.
func randomLimit(t *testing.T, r *rand.Rand, name string) *limits.Limit {
	windowUS := 999 + upTo(r, 31622400000000-999)
	count, burst := upTo(r, most), int64(0)
	switch name {
	case "sliding_window":
		count = upTo(r, 100)
	case "sliding_counter":
		count = upTo(r, (most+1)/windowUS)
	case "token_bucket", "leaky_bucket":
		w := newLimit(t, name, name, count, windowUS, 1).Rate.W
		burst = upTo(r, (most+1)/w)
		if name == "leaky_bucket" {
			burst--
		}
	}
	l := newLimit(t, name, name, count, windowUS, burst)
	if name == "fixed_window" || name == "sliding_counter" {
		l.Rate.OffsetUS = r.Int64N(windowUS)
	}
	return l
}

// randomState stores something that the limit could have left, or its neighbour before an edit,
// a while ago or a little ahead of now.
func (s *scripts) randomState(r *rand.Rand, c limits.Check) {
	ctx, key := context.Background(), string(c.Key)
	s.Del(ctx, key)
	rate, number := c.Rate, (scriptsNow-c.Rate.OffsetUS)/c.Rate.WindowUS+r.Int64N(4)-2
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		w, refillUS := rate.W, rate.Capacity/rate.N
		if r.IntN(4) == 0 {
			w = upTo(r, most)
		}
		atUS := scriptsNow - upTo(r, refillUS+1)
		if r.IntN(4) == 0 {
			atUS = scriptsNow + upTo(r, refillUS+1)
		}
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d", upTo(r, rate.Capacity), w, atUS), 0)
	case limits.FixedWindow:
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d:%d", number, rate.WindowUS, c.Rate.OffsetUS, upTo(r, rate.Count)), 0)
	case limits.SlidingCounter:
		s.Set(ctx, key, fmt.Sprintf("%d:%d:%d:%d:%d", number, rate.WindowUS, c.Rate.OffsetUS,
			upTo(r, rate.Count), upTo(r, rate.Count)), 0)
	default:
		for i := range r.Int64N(rate.Count + 2) {
			atUS := scriptsNow + r.Int64N(2*rate.WindowUS) - rate.WindowUS
			s.ZAdd(ctx, key, redis.Z{Score: float64(atUS), Member: i})
		}
	}
}

// The answers are held against what they mean, with limits and states of all sizes up to the bounds:
// what remains is admitted and one more is not; the wait admits and a microsecond less does not; the
// reset leaves an unused key and a microsecond less does not.
func TestTheAnswersAreExactUpToTheBounds(t *testing.T) {
	s := startScripts(t)
	r := rand.New(rand.NewPCG(7, 8))
	waits := map[string]int{}
	for step := range 2000 {
		name := algorithms[step%5]
		c := check(randomLimit(t, r, name), "u", 1)
		s.randomState(r, c)
		mostCost, full := c.Rate.Count, c.Rate.Count
		if c.Rate.W != 0 {
			full = c.Rate.Capacity / c.Rate.W
			mostCost = min(full, most)
		}
		ask := func(nowUS, cost int64) store.Result {
			c.Cost = cost
			return results(t, s.single(nowUS, c, true))[0]
		}
		asked := upTo(r, mostCost)
		if remaining := ask(scriptsNow, 1).Remaining; remaining < mostCost && r.IntN(2) == 0 {
			asked = remaining + upTo(r, mostCost-remaining) // too much for now
		}
		got := ask(scriptsNow, asked)
		must := func(ok bool, want string) {
			t.Helper()
			if !ok {
				t.Fatalf("step %d: %s %+v holds %s: cost %d answers %+v, want %s",
					step, name, *c.Rate, s.state(string(c.Key)), asked, got, want)
			}
		}
		must(got.Remaining >= 0 && got.Remaining <= full, "a remaining from 0 to what fits")
		if got.Remaining > 0 && got.Remaining <= mostCost {
			must(ask(scriptsNow, got.Remaining).Allowed, "what remains to be admitted")
		}
		if got.Remaining < mostCost {
			must(!ask(scriptsNow, got.Remaining+1).Allowed, "one more than remains to be refused")
		}
		if !got.Allowed && scriptsNow+got.WaitUS < most {
			waits[name]++
			must(ask(scriptsNow+got.WaitUS, asked).Allowed, "to be admitted after the wait")
			must(!ask(scriptsNow+got.WaitUS-1, asked).Allowed, "to be refused a microsecond before")
		}
		if scriptsNow+got.ResetUS < most {
			then := ask(scriptsNow+got.ResetUS, 1)
			must(then.Remaining == full && then.ResetUS == 0, "an unused key after the reset")
			must(got.ResetUS == 0 || ask(scriptsNow+got.ResetUS-1, 1).ResetUS == 1, "a used key a microsecond before")
		}
	}
	for _, name := range algorithms {
		if waits[name] < 50 {
			t.Errorf("%s: %d waits tried, want 50 at least", name, waits[name])
		}
	}
}
