package service

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// warm is a token bucket that starts with less than its burst.
func warm(t testing.TB, count, windowUS, burst, initial int64) *limits.Limit {
	l := rig.NewLimit(t, "warm", "token_bucket", count, windowUS, burst)
	l.Rate.Initial = initial
	return l
}

// Its numbers are edited now and then, to those of an usual bucket among them; the clock steps back, and
// rests for long enough that a bucket is new again.
func TestABucketThatStartsWithLessAnswersAlikeEverywhere(t *testing.T) {
	s, memory := rig.StartScripts(t), rig.StoreTaker(store.NewMemory(100))
	redis := rig.StoreTaker(rig.OpenRedis(t, s.RedisServer))
	random := rand.New(rand.NewPCG(7, 8))
	editions := []*limits.Limit{warm(t, 7, 1e6, 20, 4), warm(t, 7, 1e6, 20, 12), warm(t, 3, 1e6, 20, 1), rig.NewLimit(t, "warm", "token_bucket", 7, 1e6, 20)}
	l, nowUS := editions[0], int64(rig.ScriptsNow)
	news := 0
	for step := range 3000 {
		switch random.IntN(12) {
		case 0:
			nowUS += random.Int64N(10e6)
		case 1:
			nowUS -= random.Int64N(1e6)
		case 2:
			l = editions[random.IntN(len(editions))]
		case 3, 4, 5, 6, 7:
			nowUS += random.Int64N(300e3)
		}
		cost, peek := 1+random.Int64N(6), random.IntN(4) == 0
		of := func(key string) []limits.Check { return []limits.Check{rig.Check(l, key, cost)} }
		want := memory(t, nowUS, of("m"), peek)
		if want[0].Remaining == l.Rate.Initial && want[0].ResetUS > 0 {
			news++
		}
		is := func(who string, got []store.Result) {
			t.Helper()
			rig.Same(t, fmt.Sprint(step, " ", who, rig.Rows(got)), fmt.Sprint(step, " ", who, rig.Rows(want)))
		}
		is("redis", redis(t, nowUS, of("r"), peek))
		is("single", rig.Results(t, s.Single(nowUS, of("s")[0], peek)))
		_, reply, _ := strings.Cut(s.Take(nowUS, peek, of("t")...), " ")
		is("take", rig.Results(t, reply))
		words := strings.Fields(s.TakeSharing(nowUS, rig.Request{Checks: of("other"), Peek: true}, rig.Request{Checks: of("u"), Peek: peek}))
		is("sharing", rig.Results(t, strings.Join(words[max(0, len(words)-4):], " ")))
	}
	if news < 10 {
		t.Errorf("%d answers of a bucket that is new, want some", news)
	}
}

// The key stays for as long as a full bucket is told from a new one.
func TestABucketThatStartsWithLessIsKeptUntilItIsNew(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	alone := rig.Check(warm(t, 10, 1e6, 10, 2), "alone", 1)
	pair := []limits.Check{rig.Check(warm(t, 10, 1e6, 10, 2), "pair", 1), rig.Check(rig.NewLimit(t, "x", "fixed_window", 5, 1e6, 0), "pair", 1)}
	for _, checks := range [][]limits.Check{{alone}, pair} {
		rig.Same(t, rig.KindOf(s, checks...), "admitted")
		left := r.PTTL(context.Background(), string(checks[0].Key)).Val().Milliseconds()
		if left < 900 || left > 1900 { // 900 ms until it is full, and a second
			t.Errorf("%s: %d ms left, want 1900 or a little less", checks[0].Key, left)
		}
	}
}

func TestWhatABucketStartsWithIsChecked(t *testing.T) {
	s := rig.StartScripts(t)
	bad := func(name, args, want string) {
		t.Helper()
		var list []any
		for word := range strings.FieldsSeq(args) {
			list = append(list, word)
		}
		rig.Same(t, s.Run(name, []string{"a"}, list...), want)
	}
	bad("token_bucket", "10 1000000 10/0 1", "ERR ARGV[3]: initial = 0, want 1 to 9")
	bad("token_bucket", "10 1000000 10/10 1", "ERR ARGV[3]: initial = 10, want 1 to 9")
	bad("token_bucket", "10 1000000 10/ 1", `ERR ARGV[3]: burst = "10/", want 1 to 90071992547`)
	bad("token_bucket", "10 1000000 10/2/3 1", `ERR ARGV[3]: burst = "10/2/3", want 1 to 90071992547`)
	bad("token_bucket", "10 1000000 0/2 1", "ERR ARGV[3]: burst = 0, want 1 to 90071992547")
	bad("leaky_bucket", "10 1000000 10/2 1", `ERR ARGV[3]: burst = "10/2", want 0 to 90071992546`)
	bad("take", "0 1 1 1 100000 1000000/0 1", "ERR ARGV[6]: cold = 0, want 1 to 900000")
	bad("take", "0 1 1 1 100000 1000000/900001 1", "ERR ARGV[6]: cold = 900001, want 1 to 900000")
	bad("take", "0 1 1 1 100000 99999/1 1", "ERR ARGV[6]: capacity = 99999, want 100000 to 9007199254740992")
	bad("take", "0 1 1 1 100000 1000000/1/1 1", `ERR ARGV[6]: capacity = "1000000/1/1", want 100000 to 9007199254740992`)
	bad("take", "0 1 2 1 100000 1000000/1 1", `ERR ARGV[6]: capacity = "1000000/1", want 100000 to 9007199254740992`)
	bad("take", "0 1 3 10 1000000 0/1 1", `ERR ARGV[6]: offset_us = "0/1", want 0 to 999999`)
	bad("take", "0 1 1 1 100000 1000000/1 0", "ERR ARGV[7]: cost = 0, want 1 to 9007199254740991")
}
