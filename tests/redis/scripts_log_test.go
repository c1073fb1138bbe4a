package redis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/limits"
	"authz/tests/rig"
)

func TestWhoeverChargesInOneMicrosecondHasMembersOfTheirOwn(t *testing.T) {
	s := rig.StartScripts(t)
	c := rig.Check(rig.NewLimit(t, "api", "sliding_window", 200, 60000000, 0), "u", 2)
	key := string(c.Key)
	s.Single(rig.ScriptsNow, c, false)
	s.Take(rig.ScriptsNow, false, c)
	s.TakeAll(rig.ScriptsNow, rig.Request{Checks: []limits.Check{c}}, rig.Request{Checks: []limits.Check{c}})
	s.Single(rig.ScriptsNow-1, c, false) // the clock steps back, and comes again
	s.Single(rig.ScriptsNow, c, false)
	s.Single(rig.ScriptsNow-1, c, false)
	want := "[1767225599999999:0 1767225599999999:1 1767225599999999:2 1767225599999999:3 " +
		"1767225600000000:0 1767225600000000:1 1767225600000000:2 1767225600000000:3 1767225600000000:4 " +
		"1767225600000000:5 1767225600000000:6 1767225600000000:7 1767225600000000:8 1767225600000000:9]"
	if got := s.Members(t, key); got != want {
		t.Errorf("members are\n%s, want\n%s", got, want)
	}
	c.Cost = 100
	s.Single(rig.ScriptsNow, c, false)
	if n := s.ZCard(context.Background(), key).Val(); n != 114 {
		t.Errorf("%d members after a cost of 100 more, want 114", n)
	}
}

func TestAChargeRemovesWhatIsNotCounted(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	c := rig.Check(rig.NewLimit(t, "api", "sliding_window", 5, 1000, 0), "u", 1)
	key := string(c.Key)
	for script, charge := range map[string]func(peek bool) string{
		"single": func(peek bool) string { return "1 " + s.Single(rig.ScriptsNow, c, peek) },
		"take":   func(peek bool) string { return s.Take(rig.ScriptsNow, peek, c) },
	} {
		s.FlushDB(ctx)
		for member, fromNowUS := range map[string]float64{
			"older": -1000, "oldest counted": -999, "newest counted": 1000, "later": 1001, "an hour later": 3600e6,
		} {
			s.ZAdd(ctx, key, redis.Z{Score: rig.ScriptsNow + fromNowUS, Member: member})
		}
		before := s.Members(t, key)
		if got, want := charge(true), "1 1 3 0 2000"; got != want || s.Members(t, key) != before {
			t.Errorf("%s: a peek answers %s and leaves %s, want %s and %s", script, got, s.Members(t, key), want, before)
		}
		if got, want := charge(false), "1 1 2 0 2000"; got != want {
			t.Errorf("%s: a charge answers %s, want %s", script, got, want)
		}
		if got, want := s.Members(t, key), "[oldest counted 1767225600000000:0 newest counted]"; got != want {
			t.Errorf("%s: members are %s after a charge, want %s", script, got, want)
		}
	}
}
