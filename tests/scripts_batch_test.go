package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"authz/limits"
)

// A request is what take is asked for once; many share a call.
type request struct {
	checks []limits.Check
	peek   bool
}

// takeAll asks take for all requests in one call, with the numbers of every check written out.
func (s *scripts) takeAll(nowUS int64, requests ...request) string {
	var keys []string
	args := []any{nowUS}
	for _, r := range requests {
		k, a := takeArgs(r.checks, r.peek)
		keys, args = append(keys, k...), append(args, a...)
	}
	return s.run("take", keys, args...)
}

// takeSharing asks the same as takeAll, and writes the numbers that checks have alike once.
func (s *scripts) takeSharing(nowUS int64, requests ...request) string {
	var keys []string
	args, rows := []any{nowUS}, map[string]int{}
	for _, r := range requests {
		k, a := takeArgs(r.checks, r.peek)
		keys, args = append(keys, k...), append(args, a[0])
		for row := range slices.Chunk(a[1:], 5) {
			if i, known := rows[fmt.Sprint(row)]; known {
				args = append(args, 5+i)
			} else {
				rows[fmt.Sprint(row)] = len(rows) + 1
				args = append(args, row...)
			}
		}
	}
	return s.run("take", keys, args...)
}

func TestRequestsOfOneCallAreDecidedOneAfterTheOther(t *testing.T) {
	s := startScripts(t)
	fixed := check(newLimit(t, "fw", "fixed_window", 3, 60000000, 0), "u", 2)
	bucket := check(newLimit(t, "tb", "token_bucket", 6, 60000000, 6), "u", 1)
	got := s.takeAll(scriptsNow,
		request{checks: []limits.Check{bucket, fixed}},
		request{checks: []limits.Check{fixed, bucket}},             // the first has left 1
		request{checks: []limits.Check{bucket, fixed}, peek: true}, // and the second charged nothing
		request{checks: []limits.Check{bucket}},
		request{checks: []limits.Check{bucket}, peek: true})
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
	together, sharing, apart := startScripts(t), startScripts(t), startScripts(t)
	random := rand.New(rand.NewPCG(5, 6))
	checks := oneOfEach(t)
	checks[1].Limit.Shadow = true
	checks[3].Limit.Shadow = true
	now := int64(scriptsNow)
	for range 100 {
		now += random.Int64N(20000000) - 3000000
		var requests []request
		var answers []string
		for range 1 + random.IntN(6) {
			r := request{peek: random.IntN(5) == 0}
			for _, i := range random.Perm(5)[:1+random.IntN(5)] {
				c := checks[i]
				c.Key = fmt.Appendf(nil, "%s:%d", c.Key, random.IntN(2))
				c.Cost = 1 + random.Int64N(2)
				r.checks = append(r.checks, c)
			}
			requests = append(requests, r)
			answers = append(answers, apart.take(now, r.peek, r.checks...))
		}
		want := strings.Join(answers, " ")
		if got := together.takeAll(now, requests...); got != want {
			t.Fatalf("at %d: %d requests\ngot  %s\nwant %s", now, len(requests), got, want)
		}
		if got := sharing.takeSharing(now, requests...); got != want {
			t.Fatalf("at %d: %d requests that share their numbers\ngot  %s\nwant %s", now, len(requests), got, want)
		}
		together.mustStoreAs(t, apart)
		sharing.mustStoreAs(t, apart)
	}
}

func TestAKeyOfAnotherTypeSpoilsItsOwnRequestAlone(t *testing.T) {
	s := startScripts(t)
	ctx := context.Background()
	checks := oneOfEach(t)
	before := request{checks: []limits.Check{check(newLimit(t, "before", "fixed_window", 3, 60000000, 0), "u", 1)}}
	after := request{checks: []limits.Check{check(newLimit(t, "after", "sliding_window", 3, 60000000, 0), "u", 1)}}
	for i, bad := range checks {
		s.FlushDB(ctx)
		s.RPush(ctx, string(bad.Key), "a list")
		got := s.takeAll(scriptsNow, before, request{checks: checks}, after)
		want := "1 1 2 0 60000000 -1" + strings.Repeat(" 0 0 0 0", 5) + " 1 1 2 0 60000000"
		if got != want {
			t.Errorf("%s is a list:\ngot  %s\nwant %s", bad.Key, got, want)
		}
		if n := s.DBSize(ctx).Val(); n != 3 { // the list and the two others
			t.Errorf("%s is a list: %d keys afterwards, want 3", bad.Key, n)
		}
		got = s.single(scriptsNow, checks[i], false)
		if want := "WRONGTYPE Operation against a key holding the wrong kind of value"; got != want {
			t.Errorf("%s is a list: its own script says\n%s, want\n%s", bad.Key, got, want)
		}
	}
}

// What Redis refuses for another reason than a key's type is said, not answered.
func TestAReadThatRedisRefusesIsAnError(t *testing.T) {
	s := startScripts(t)
	ctx := context.Background()
	for _, acl := range []string{"-get", "-zcard"} {
		if err := s.Do(ctx, "ACL", "SETUSER", "default", acl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range oneOfEach(t) {
		for _, got := range []string{s.take(scriptsNow, false, c), s.single(scriptsNow, c, false)} {
			if !strings.Contains(got, "can't run this command") && !strings.Contains(got, "NOPERM") {
				t.Errorf("%s answers %s, want that Redis refused", c.Limit.Name, got)
			}
		}
	}
}
