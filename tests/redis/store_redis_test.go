package redis

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

func TestThreeLimitsCostOneEvalshaAndARefusalChargesNone(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	tight := rig.NewLimit(t, "tight", "sliding_window", 1, 3600e6, 0)
	checks := []limits.Check{
		rig.Check(rig.NewLimit(t, "bucket", "token_bucket", 10, 3600e6, 10), "u", 1),
		rig.Check(tight, "u", 1),
		rig.Check(rig.NewLimit(t, "window", "fixed_window", 10, 366*86400e6, 0), "u", 1),
	}
	rig.Same(t, rig.KindOf(s, checks...), "admitted")
	rig.Same(t, fmt.Sprint(r.Calls(t, "evalsha"), r.Calls(t, "eval")), "1 0")
	state := func() string {
		text := ""
		for _, c := range checks {
			key := string(c.Key)
			text += fmt.Sprintln(r.Type(context.Background(), key).Val(), r.PExpireTime(context.Background(), key).Val(), r.Dump(context.Background(), key).Val())
		}
		return text
	}
	before, sets, adds := state(), r.Calls(t, "set"), r.Calls(t, "zadd")
	rig.Same(t, rig.KindOf(s, checks...), "refused")
	rig.Same(t, state(), before)
	rig.Same(t, fmt.Sprint(r.Calls(t, "evalsha"), r.Calls(t, "set")-sets, r.Calls(t, "zadd")-adds), "2 0 0")
}

// C105: the script is sent again, in the same request, and nothing that was counted is lost.
func TestScriptFlushUnderLoadLosesNothing(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	for _, algorithm := range rig.Algorithms {
		l := rig.NewLimit(t, algorithm, algorithm, 200, 366*86400e6, 200)
		want := 200
		if algorithm == "leaky_bucket" {
			want++
		}
		done := make(chan struct{})
		var flushes sync.WaitGroup
		flushes.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.ScriptFlush(context.Background())
				}
			}
		})
		n := rig.TakeAtOnce(t, [2]store.Store{s, s}, l, 16, 25)
		close(done)
		flushes.Wait()
		rig.Same(t, fmt.Sprint(algorithm, " ", n), fmt.Sprint(algorithm, " ", want))
	}
	if r.Calls(t, "eval") == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
	evals := r.Calls(t, "eval")
	rig.Same(t, rig.KindOf(s, rig.Check(rig.NewLimit(t, "x", "fixed_window", 1, 1e6, 0), "u", 1)), "admitted")
	rig.Same(t, rig.KindOf(s, rig.Check(rig.NewLimit(t, "y", "fixed_window", 1, 1e6, 0), "u", 1)), "admitted")
	if n := r.Calls(t, "eval") - evals; n > 1 {
		t.Errorf("%d EVAL after the last flush, want 1 at most: EVALSHA again", n)
	}
}

// A key of another type is never an allow, and an error of its own request alone. (C102)
func TestWrongTypeSpoilsItsOwnRequestOnly(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	for _, algorithm := range rig.Algorithms {
		l := rig.NewLimit(t, algorithm, algorithm, 5, 3600e6, 5)
		bad, good := rig.Check(l, "bad", 1), rig.Check(l, "good", 1)
		r.LPush(context.Background(), string(bad.Key), "x")
		rig.Same(t, algorithm+" "+rig.KindOf(s, good, bad), algorithm+" wrongtype")
		if n := r.Exists(context.Background(), string(good.Key)).Val(); n != 0 {
			t.Errorf("%s: the neighbour was charged", algorithm)
		}
		rig.Same(t, rig.KindOf(s, good), "admitted")
	}
}

// C057: a counter without an expiry that a foreign hand left, and state that does not parse, read
// as what they are, and the next charge gives them what they lack.
func TestForeignStateHealsAtTheNextCharge(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	ctx := context.Background()
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_counter"} {
		for _, text := range []string{"", "x", "1", "9:9", "-1:-1:-1:-1:-1", "1e3:1e3:1e3", "nan:inf:0:0", "0:0:0", "99999999999999999999:1:1"} {
			c := rig.Check(rig.NewLimit(t, algorithm, algorithm, 5, 3600e6, 5), "u", 1)
			key := string(c.Key)
			r.Set(ctx, key, text, 0)
			rig.Same(t, fmt.Sprint(algorithm, text, rig.KindOf(s, c)), algorithm+text+"admitted")
			if ttl := r.PTTL(ctx, key).Val(); ttl <= 0 {
				t.Errorf("%s: after %q the key lives for %v, want an end", algorithm, text, ttl)
			}
			r.Persist(ctx, key)
			rig.Same(t, rig.KindOf(s, c), "admitted")
			if ttl := r.PTTL(ctx, key).Val(); ttl <= 0 {
				t.Errorf("%s: without expiry, after a charge the key lives for %v, want an end", algorithm, ttl)
			}
		}
	}
}

// C057, over whatever may happen: no key of ours is ever without an end.
func TestEveryKeyExpires(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	for seed := range uint64(5) {
		rig.Agree(t, seed, 100, rig.StoreTaker(s), rig.StoreTaker(store.NewMemory(1000)))
		r.EachKeyExpires(t)
		for _, algorithm := range rig.Algorithms {
			rig.KindOf(s, rig.Check(rig.NewLimit(t, algorithm, algorithm, 5, 3600e6, 5), "own clock", 1))
		}
		r.EachKeyExpires(t)
		r.Flush(t)
	}
}

// Redis's clock decides when the caller hands none in, and results are of that clock.
func TestNowIsRedissOwnTime(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	c := rig.Check(rig.NewLimit(t, "day", "fixed_window", 5, 86400e6, 0), "u", 1)
	before := r.Time(context.Background()).Val().UnixMicro()
	results, err := s.Take(context.Background(), 0, []limits.Check{c}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	after := r.Time(context.Background()).Val().UnixMicro()
	ends := 86400e6 - results[0].ResetUS // of the day, when it was decided
	if ends < before%86400e6 || ends > after%86400e6 {
		t.Errorf("decided at %d of the day, want %d to %d", ends, before%86400e6, after%86400e6)
	}
}
