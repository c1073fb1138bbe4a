package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

func TestRequestsOfOneCallAreDecidedOneAfterTheOther(t *testing.T) {
	s := rig.StartScripts(t)
	fixed := rig.Check(rig.NewLimit(t, "fw", "fixed_window", 3, 60000000, 0), "u", 2)
	bucket := rig.Check(rig.NewLimit(t, "tb", "token_bucket", 6, 60000000, 6), "u", 1)
	got := s.TakeAll(rig.ScriptsNow,
		rig.Request{Checks: []limits.Check{bucket, fixed}},
		rig.Request{Checks: []limits.Check{fixed, bucket}},             // the first has left 1
		rig.Request{Checks: []limits.Check{bucket, fixed}, Peek: true}, // and the second charged nothing
		rig.Request{Checks: []limits.Check{bucket}},
		rig.Request{Checks: []limits.Check{bucket}, Peek: true})
	want := "1 1 5 0 10000000 1 1 0 60000000 " +
		"0 0 1 60000000 60000000 1 5 0 10000000 " +
		"0 1 5 0 10000000 0 1 60000000 60000000 " +
		"1 1 4 0 20000000 " +
		"1 1 4 0 20000000"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestACallOfManyAnswersAsManyCalls(t *testing.T) {
	together, sharing, apart := rig.StartScripts(t), rig.StartScripts(t), rig.StartScripts(t)
	random := rand.New(rand.NewPCG(5, 6))
	checks := oneOfEach(t)
	checks[1].Limit.Shadow = true
	checks[3].Limit.Shadow = true
	now := int64(rig.ScriptsNow)
	for range 100 {
		now += random.Int64N(20000000) - 3000000
		var requests []rig.Request
		var answers []string
		for range 1 + random.IntN(6) {
			r := rig.Request{Peek: random.IntN(5) == 0}
			for _, i := range random.Perm(5)[:1+random.IntN(5)] {
				c := checks[i]
				c.Key = fmt.Appendf(nil, "%s:%d", c.Key, random.IntN(2))
				c.Cost = 1 + random.Int64N(2)
				r.Checks = append(r.Checks, c)
			}
			requests = append(requests, r)
			answers = append(answers, apart.Take(now, r.Peek, r.Checks...))
		}
		want := strings.Join(answers, " ")
		if got := together.TakeAll(now, requests...); got != want {
			t.Fatalf("at %d: %d requests\ngot  %s\nwant %s", now, len(requests), got, want)
		}
		if got := sharing.TakeSharing(now, requests...); got != want {
			t.Fatalf("at %d: %d requests that share their numbers\ngot  %s\nwant %s", now, len(requests), got, want)
		}
		together.MustStoreAs(t, apart)
		sharing.MustStoreAs(t, apart)
	}
}

func TestAKeyOfAnotherTypeSpoilsItsOwnRequestAlone(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	checks := oneOfEach(t)
	before := rig.Request{Checks: []limits.Check{rig.Check(rig.NewLimit(t, "before", "fixed_window", 3, 60000000, 0), "u", 1)}}
	after := rig.Request{Checks: []limits.Check{rig.Check(rig.NewLimit(t, "after", "sliding_window", 3, 60000000, 0), "u", 1)}}
	for i, bad := range checks {
		s.FlushDB(ctx)
		s.RPush(ctx, string(bad.Key), "a list")
		got := s.TakeAll(rig.ScriptsNow, before, rig.Request{Checks: checks}, after)
		want := "1 1 2 0 60000000 -1" + strings.Repeat(" 0 0 0 0", 5) + " 1 1 2 0 60000000"
		if got != want {
			t.Errorf("%s is a list:\ngot  %s\nwant %s", bad.Key, got, want)
		}
		if n := s.DBSize(ctx).Val(); n != 3 { // the list and the two others
			t.Errorf("%s is a list: %d keys afterwards, want 3", bad.Key, n)
		}
		got = s.Single(rig.ScriptsNow, checks[i], false)
		if want := "WRONGTYPE Operation against a key holding the wrong kind of value"; got != want {
			t.Errorf("%s is a list: its own script says\n%s, want\n%s", bad.Key, got, want)
		}
	}
}

// What Redis refuses for another reason than a key's type is said, not answered.
func TestAReadThatRedisRefusesIsAnError(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	for _, acl := range []string{"-get", "-zcard"} {
		if err := s.Do(ctx, "ACL", "SETUSER", "default", acl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range oneOfEach(t) {
		for _, got := range []string{s.Take(rig.ScriptsNow, false, c), s.Single(rig.ScriptsNow, c, false)} {
			if !strings.Contains(got, "can't run this command") && !strings.Contains(got, "NOPERM") {
				t.Errorf("%s answers %s, want that Redis refused", c.Limit.Name, got)
			}
		}
	}
}
