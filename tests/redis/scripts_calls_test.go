package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

// Two instances with an old and a new limits file may share a call no more than one that reloads
// does; whoever calls by hand may write what they like.
func TestALimitMayBeEditedWithinACall(t *testing.T) {
	together, apart := rig.StartScripts(t), rig.StartScripts(t)
	random := rand.New(rand.NewPCG(9, 10))
	now := int64(rig.ScriptsNow)
	for step := range 150 {
		now += random.Int64N(20000000) - 3000000
		var edited [2][]limits.Check
		for i := range edited {
			for _, name := range rig.Algorithms {
				windowUS := []int64{30000000, 60000000}[random.IntN(2)]
				l := rig.NewLimit(t, name, name, 3+random.Int64N(9), windowUS, 2+random.Int64N(9))
				l.Shadow = random.IntN(4) == 0
				c := rig.Check(l, "u", 1+random.Int64N(2))
				c.Key = []byte(name)
				if random.IntN(20) == 0 { // a key of another algorithm, for once
					c.Key = []byte(rig.Algorithms[random.IntN(5)])
				}
				edited[i] = append(edited[i], c)
			}
		}
		var requests []rig.Request
		var answers []string
		for range 2 + random.IntN(6) {
			r := rig.Request{Peek: random.IntN(5) == 0}
			named := map[string]bool{}
			for _, i := range random.Perm(5)[:1+random.IntN(5)] {
				c := edited[random.IntN(2)][i]
				if !named[string(c.Key)] {
					r.Checks = append(r.Checks, c)
				}
				named[string(c.Key)] = true
			}
			requests = append(requests, r)
			answers = append(answers, apart.Take(now, r.Peek, r.Checks...))
		}
		if got, want := together.TakeSharing(now, requests...), strings.Join(answers, " "); got != want {
			t.Fatalf("step %d at %d: %d requests\ngot  %s\nwant %s", step, now, len(requests), got, want)
		}
		together.MustStoreAs(t, apart)
	}
}

// Keys of one limit share what their states have alike, but for one that lies a window ahead.
func TestAWindowAheadIsWrittenBesideTheCurrentOne(t *testing.T) {
	s := rig.StartScripts(t)
	for _, c := range []limits.Check{oneOfEach(t)[2], oneOfEach(t)[4]} {
		before, ahead, after := c, c, c
		before.Key, ahead.Key, after.Key = []byte("before"), []byte("ahead"), []byte("after")
		s.FlushDB(context.Background())
		s.Take(rig.ScriptsNow+60000000, false, ahead)
		s.TakeSharing(rig.ScriptsNow, rig.Request{Checks: []limits.Check{before}}, rig.Request{Checks: []limits.Check{ahead}},
			rig.Request{Checks: []limits.Check{after}})
		got := fmt.Sprint(s.State("before"), " ", s.State("ahead"), " ", s.State("after"))
		want := "29453760:60000000:0:1 29453761:60000000:0:2 29453760:60000000:0:1"
		if c.Limit.Algorithm == limits.SlidingCounter {
			want = "29453760:60000000:0:0:1 29453761:60000000:0:0:2 29453760:60000000:0:0:1"
		}
		if got != want {
			t.Errorf("%s: states are %s, want %s", c.Limit.Name, got, want)
		}
	}
}

// With the same numbers, one reads nothing in what the other has charged.
func TestAnotherAlgorithmOnAKeyStartsAfreshWithinACall(t *testing.T) {
	s := rig.StartScripts(t)
	fixed, counter := oneOfEach(t)[2], oneOfEach(t)[4]
	counter.Key = fixed.Key
	got := s.TakeSharing(rig.ScriptsNow, rig.Request{Checks: []limits.Check{fixed}}, rig.Request{Checks: []limits.Check{counter}})
	if want := "1 1 2 0 60000000 1 1 2 0 120000000"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got, want := s.State(string(fixed.Key)), "29453760:60000000:0:0:1"; got != want {
		t.Errorf("state is %s, want %s", got, want)
	}
}

// The second request edits the limit, for which the first one's charge would have to be written.
func TestABadArgumentAfterAnEditWritesNothingEither(t *testing.T) {
	bad := rig.StartScripts(t).Bad(t)
	bad(`ERR ARGV[14]: checks = "x", want 1, or negative for a peek`, "take", "a a b",
		"0 1 3 5 1000 0 1 1 3 6 2000 0 1 x")
	bad("ERR 3 keys, want 2", "take", "a a b", "0 1 3 5 1000 0 1 1 3 6 2000 0 1")
	bad("ERR ARGV[15]: algorithm = 8, want 1 to 7, or negative for a shadow", "take", "a a b",
		"0 1 4 5 1000 0 1 1 4 6 2000 0 1 1 8")
}

// A limit without key parts is in every request of a call.
func TestAKeyOfManyRequestsIsReadAndWrittenOnce(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	for _, c := range oneOfEach(t) {
		requests := slices.Repeat([]rig.Request{{Checks: []limits.Check{c}}}, 5)
		s.ConfigResetStat(ctx)
		got := s.TakeSharing(rig.ScriptsNow, requests...)
		if admitted := strings.Count(" "+got, " 1 1 "); admitted != 3 {
			t.Errorf("%s: %s: %d admitted, want 3", c.Limit.Name, got, admitted)
		}
		stats := s.Info(ctx, "commandstats").Val()
		for _, command := range []string{"get", "set", "zcard", "zadd", "pexpire"} {
			_, rest, found := strings.Cut(stats, "cmdstat_"+command+":calls=")
			if calls, _, _ := strings.Cut(rest, ","); found && calls != "1" {
				t.Errorf("%s: %s calls of %s for 5 requests, want 1", c.Limit.Name, calls, command)
			}
		}
	}
}

// A log takes hundreds of requests in one call: more than one ZADD can be given.
func TestALogIsChargedWithManyRequestsAtOnce(t *testing.T) {
	s := rig.StartScripts(t)
	c := rig.Check(rig.NewLimit(t, "api", "sliding_window", 10000, 60000000, 0), "u", 100)
	got := s.TakeSharing(rig.ScriptsNow, slices.Repeat([]rig.Request{{Checks: []limits.Check{c}}}, 101)...)
	if want := " 1 1 0 0 60000000 0 0 0 60000000 60000000"; !strings.HasSuffix(got, want) {
		t.Errorf("answers end in %s, want %s", got[max(0, len(got)-100):], want)
	}
	if n := s.ZCard(context.Background(), string(c.Key)).Val(); n != 10000 {
		t.Errorf("%d members, want 10000", n)
	}
}

// What a refused request's first checks would have charged is nowhere: not in the state, not in the
// expiry, and not in what the requests behind it see.
func TestARefusedRequestOfManyLeavesNoTraceInItsCall(t *testing.T) {
	s := rig.StartScripts(t)
	checks := oneOfEach(t)
	full := rig.Check(rig.NewLimit(t, "full", "fixed_window", 1, 60000000, 0), "u", 1)
	one, two := rig.Request{Checks: checks}, rig.Request{Checks: append(slices.Clone(checks), full)}
	got := s.TakeSharing(rig.ScriptsNow, rig.Request{Checks: []limits.Check{full}}, one, two, two, rig.Request{Checks: checks, Peek: true})
	after := " 1 2 0 20000000 1 2 0 20000000 1 2 0 60000000 1 2 0 60000000 1 2 0 120000000"
	want := "1 1 0 0 60000000 1" + after + strings.Repeat(" 0"+after+" 0 0 60000000 60000000", 2) + " 1" + after
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	once := rig.StartScripts(t)
	once.Take(rig.ScriptsNow, false, full)
	once.Take(rig.ScriptsNow, false, checks...)
	s.MustStoreAs(t, once)
	for _, c := range checks {
		bad := rig.StartScripts(t)
		bad.RPush(context.Background(), string(full.Key), "a list")
		got := bad.TakeSharing(rig.ScriptsNow, one, two, rig.Request{Checks: []limits.Check{c}, Peek: true})
		if want := "1" + after + " -1" + strings.Repeat(" 0 0 0 0", 6) + " 1 1 2 0 "; !strings.HasPrefix(got, want) {
			t.Errorf("got  %s\nwant %s...", got, want)
		}
		bad.Del(context.Background(), string(full.Key))
		once.Del(context.Background(), string(full.Key))
		bad.MustStoreAs(t, once)
	}
}

// Rows are counted by those that are written out, not by checks.
func TestARowIsFoundByWhoWroteIt(t *testing.T) {
	s := rig.StartScripts(t)
	take := func(want, keys, args string) {
		t.Helper()
		var argv []any
		for arg := range strings.FieldsSeq(args) {
			argv = append(argv, arg)
		}
		if got := s.Run("take", strings.Fields(keys), argv...); got != want {
			t.Errorf("take %s , %s\ngot  %s\nwant %s", keys, args, got, want)
		}
	}
	now := fmt.Sprint(rig.ScriptsNow)
	take("1 1 4 0 60000000 1 1 4 0 60000000 1 1 1 0 60000000 1 1 0 0 60000000", "a b c c",
		now+" 1 3 5 60000000 0 1 1 6 1 3 2 60000000 0 1 1 7")
	take("", "", now)
	take("0 0 0 60000000 60000000 1 1 3 0 60000000", "c b", now+" 1 3 2 60000000 0 1 1 3 5 60000000 0 1")
	take("1 0 0 60000000 60000000 1 3 0 60000000", "c a", now+" 2 -3 2 60000000 0 1 03 5 60000000 0 1")
}
