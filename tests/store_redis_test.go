package tests

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
)

// openRedis is a store on a server of the test's own, which answers when the machine lets it.
func openRedis(t testing.TB, r *redisServer) redisstore.Redis {
	t.Helper()
	s := openRedisURL(t, r.url(), 10*time.Second)
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func openRedisURL(t testing.TB, url string, timeout time.Duration) redisstore.Redis {
	t.Helper()
	s, err := redisstore.Open(redisstore.Options{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (r *redisServer) flush(t testing.TB) {
	t.Helper()
	if err := r.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

// calls is how often the server has run a command.
func (r *redisServer) calls(t testing.TB, command string) int {
	t.Helper()
	text, err := r.Info(context.Background(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`cmdstat_` + regexp.QuoteMeta(command) + `:calls=(\d+)`).FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// kindOf takes 1 by the store's own clock, and says what came of it.
func kindOf(s store.Store, checks ...limits.Check) string {
	results, err := s.Take(context.Background(), 0, checks, false, nil)
	switch {
	case err != nil:
		return redisstore.Kind(err)
	case admitted(checks, results):
		return "admitted"
	}
	return "refused"
}

func TestThreeLimitsCostOneEvalshaAndARefusalChargesNone(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	tight := newLimit(t, "tight", "sliding_window", 1, 3600e6, 0)
	checks := []limits.Check{
		check(newLimit(t, "bucket", "token_bucket", 10, 3600e6, 10), "u", 1),
		check(tight, "u", 1),
		check(newLimit(t, "window", "fixed_window", 10, 366*86400e6, 0), "u", 1),
	}
	same(t, kindOf(s, checks...), "admitted")
	same(t, fmt.Sprint(r.calls(t, "evalsha"), r.calls(t, "eval")), "1 0")
	state := func() string {
		text := ""
		for _, c := range checks {
			key := string(c.Key)
			text += fmt.Sprintln(r.Type(context.Background(), key).Val(), r.PExpireTime(context.Background(), key).Val(), r.Dump(context.Background(), key).Val())
		}
		return text
	}
	before, sets, adds := state(), r.calls(t, "set"), r.calls(t, "zadd")
	same(t, kindOf(s, checks...), "refused")
	same(t, state(), before)
	same(t, fmt.Sprint(r.calls(t, "evalsha"), r.calls(t, "set")-sets, r.calls(t, "zadd")-adds), "2 0 0")
}

// C105: the script is sent again, in the same request, and nothing that was counted is lost.
func TestScriptFlushUnderLoadLosesNothing(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	for _, algorithm := range algorithms {
		l := newLimit(t, algorithm, algorithm, 200, 366*86400e6, 200)
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
		n := takeAtOnce(t, [2]store.Store{s, s}, l, 16, 25)
		close(done)
		flushes.Wait()
		same(t, fmt.Sprint(algorithm, " ", n), fmt.Sprint(algorithm, " ", want))
	}
	if r.calls(t, "eval") == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
	evals := r.calls(t, "eval")
	same(t, kindOf(s, check(newLimit(t, "x", "fixed_window", 1, 1e6, 0), "u", 1)), "admitted")
	same(t, kindOf(s, check(newLimit(t, "y", "fixed_window", 1, 1e6, 0), "u", 1)), "admitted")
	if n := r.calls(t, "eval") - evals; n > 1 {
		t.Errorf("%d EVAL after the last flush, want 1 at most: EVALSHA again", n)
	}
}

// A key of another type is never an allow, and an error of its own request alone. (C102)
func TestWrongTypeSpoilsItsOwnRequestOnly(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	for _, algorithm := range algorithms {
		l := newLimit(t, algorithm, algorithm, 5, 3600e6, 5)
		bad, good := check(l, "bad", 1), check(l, "good", 1)
		r.LPush(context.Background(), string(bad.Key), "x")
		same(t, algorithm+" "+kindOf(s, good, bad), algorithm+" wrongtype")
		if n := r.Exists(context.Background(), string(good.Key)).Val(); n != 0 {
			t.Errorf("%s: the neighbour was charged", algorithm)
		}
		same(t, kindOf(s, good), "admitted")
	}
}

// C057: a counter without an expiry that a foreign hand left, and state that does not parse, read
// as what they are, and the next charge gives them what they lack.
func TestForeignStateHealsAtTheNextCharge(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	ctx := context.Background()
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_counter"} {
		for _, text := range []string{"", "x", "1", "9:9", "-1:-1:-1:-1:-1", "1e3:1e3:1e3", "nan:inf:0:0", "0:0:0", "99999999999999999999:1:1"} {
			c := check(newLimit(t, algorithm, algorithm, 5, 3600e6, 5), "u", 1)
			key := string(c.Key)
			r.Set(ctx, key, text, 0)
			same(t, fmt.Sprint(algorithm, text, kindOf(s, c)), algorithm+text+"admitted")
			if ttl := r.PTTL(ctx, key).Val(); ttl <= 0 {
				t.Errorf("%s: after %q the key lives for %v, want an end", algorithm, text, ttl)
			}
			r.Persist(ctx, key)
			same(t, kindOf(s, c), "admitted")
			if ttl := r.PTTL(ctx, key).Val(); ttl <= 0 {
				t.Errorf("%s: without expiry, after a charge the key lives for %v, want an end", algorithm, ttl)
			}
		}
	}
}

// C057, over whatever may happen: no key of ours is ever without an end.
func TestEveryKeyExpires(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	for seed := range uint64(5) {
		agree(t, seed, 100, storeTaker(s), storeTaker(store.NewMemory(1000)))
		r.eachKeyExpires(t)
		for _, algorithm := range algorithms {
			kindOf(s, check(newLimit(t, algorithm, algorithm, 5, 3600e6, 5), "own clock", 1))
		}
		r.eachKeyExpires(t)
		r.flush(t)
	}
}

func (r *redisServer) eachKeyExpires(t *testing.T) {
	t.Helper()
	keys := r.Keys(context.Background(), "*").Val()
	if len(keys) == 0 {
		t.Error("no keys, want some")
	}
	for _, key := range keys {
		if ttl := r.PTTL(context.Background(), key).Val(); ttl == -1 {
			t.Errorf("%s has no expiry", key)
		}
	}
}

// Redis's clock decides when the caller hands none in, and results are of that clock.
func TestNowIsRedissOwnTime(t *testing.T) {
	r := startRedis(t)
	s := openRedis(t, r)
	c := check(newLimit(t, "day", "fixed_window", 5, 86400e6, 0), "u", 1)
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
