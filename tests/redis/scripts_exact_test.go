package redis

import (
	"math/rand/v2"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// randomLimit is a limit as large as its algorithm takes them.
func randomLimit(t *testing.T, r *rand.Rand, name string) *limits.Limit {
	windowUS := 999 + rig.UpTo(r, 31622400000000-999)
	count, burst := rig.UpTo(r, rig.Most), int64(0)
	switch name {
	case "sliding_window":
		count = rig.UpTo(r, 100)
	case "sliding_counter":
		count = rig.UpTo(r, (rig.Most+1)/windowUS)
	case "token_bucket", "leaky_bucket":
		w := rig.NewLimit(t, name, name, count, windowUS, 1).Rate.W
		burst = rig.UpTo(r, (rig.Most+1)/w)
		if name == "leaky_bucket" {
			burst--
		}
	}
	l := rig.NewLimit(t, name, name, count, windowUS, burst)
	if name == "fixed_window" || name == "sliding_counter" {
		l.Rate.OffsetUS = r.Int64N(windowUS)
	}
	return l
}

// The answers are held against what they mean, with limits and states of all sizes up to the bounds:
// what remains is admitted and one more is not; the wait admits and a microsecond less does not; the
// reset leaves an unused key and a microsecond less does not.
func TestTheAnswersAreExactUpToTheBounds(t *testing.T) {
	s := rig.StartScripts(t)
	r := rand.New(rand.NewPCG(7, 8))
	waits := map[string]int{}
	for step := range 2000 {
		name := rig.Algorithms[step%5]
		c := rig.Check(randomLimit(t, r, name), "u", 1)
		s.RandomState(r, c)
		mostCost, full := c.Rate.Count, c.Rate.Count
		if c.Rate.W != 0 {
			full = c.Rate.Capacity / c.Rate.W
			mostCost = min(full, rig.Most)
		}
		ask := func(nowUS, cost int64) store.Result {
			c.Cost = cost
			return rig.Results(t, s.Single(nowUS, c, true))[0]
		}
		asked := rig.UpTo(r, mostCost)
		if remaining := ask(rig.ScriptsNow, 1).Remaining; remaining < mostCost && r.IntN(2) == 0 {
			asked = remaining + rig.UpTo(r, mostCost-remaining) // too much for now
		}
		got := ask(rig.ScriptsNow, asked)
		must := func(ok bool, want string) {
			t.Helper()
			if !ok {
				t.Fatalf("step %d: %s %+v holds %s: cost %d answers %+v, want %s",
					step, name, *c.Rate, s.State(string(c.Key)), asked, got, want)
			}
		}
		must(got.Remaining >= 0 && got.Remaining <= full, "a remaining from 0 to what fits")
		if got.Remaining > 0 && got.Remaining <= mostCost {
			must(ask(rig.ScriptsNow, got.Remaining).Allowed, "what remains to be admitted")
		}
		if got.Remaining < mostCost {
			must(!ask(rig.ScriptsNow, got.Remaining+1).Allowed, "one more than remains to be refused")
		}
		if !got.Allowed && rig.ScriptsNow+got.WaitUS < rig.Most {
			waits[name]++
			must(ask(rig.ScriptsNow+got.WaitUS, asked).Allowed, "to be admitted after the wait")
			must(!ask(rig.ScriptsNow+got.WaitUS-1, asked).Allowed, "to be refused a microsecond before")
		}
		if rig.ScriptsNow+got.ResetUS < rig.Most {
			then := ask(rig.ScriptsNow+got.ResetUS, 1)
			must(then.Remaining == full && then.ResetUS == 0, "an unused key after the reset")
			must(got.ResetUS == 0 || ask(rig.ScriptsNow+got.ResetUS-1, 1).ResetUS == 1, "a used key a microsecond before")
		}
	}
	for _, name := range rig.Algorithms {
		if waits[name] < 50 {
			t.Errorf("%s: %d waits tried, want 50 at least", name, waits[name])
		}
	}
}
