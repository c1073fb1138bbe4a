package tests

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const cachedLimits = `
	[limit.day]
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "3/366d"
	cost = "header:X-Cost"
	cost_max = 1
	[limit.minute]
	match = { path = "/minute" }
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "token_bucket"
	rate = "1/300d"
	burst = 2
	[limit.watch]
	key = []
	algorithm = "fixed_window"
	rate = "1000/366d"
	mode = "shadow"`

// startCached is a pack with a refusal cache that works: an epoch has been read.
func startCached(t *testing.T, limits string) *site {
	t.Helper()
	s := startPack(t, startRedis(t), "refusal_cache = true", siteConf{limits: limits})
	s.useUp(t, "first")
	return s
}

// useUp uses up the three of a caller, and returns when refusals come from the cache.
func (s *site) useUp(t *testing.T, who string) {
	t.Helper()
	before := s.metric(t, "authz_cached_refusals_total")
	same(t, s.sendAll(t, 3, "GET /", "X-Who: "+who, "X-Cost: 1"), "200 200 200")
	for s.metric(t, "authz_cached_refusals_total") == before {
		same(t, s.sendAll(t, 1, "GET /", "X-Who: "+who, "X-Cost: 1"), "429")
	}
}

func TestARefusalIsRememberedUntilItsWaitIsOver(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	asked, watched := s.asked(t), s.metric(t, `authz_decisions_total{limit="watch",verdict="shadow_admitted"}`)
	same(t, s.sendAll(t, 5, "GET /", "X-Who: me"), "429 429 429 429 429")
	if n := s.asked(t); n != asked {
		t.Errorf("Redis was asked %d times about what is remembered", n-asked)
	}
	// Shadows are not evaluated then.
	same(t, s.metric(t, `authz_decisions_total{limit="watch",verdict="shadow_admitted"}`), watched)
	got := s.send(t, "GET /", "", "X-Who: me")
	seconds := got.header.Get("Retry-After")
	same(t, got.show("Retry-After", "RateLimit", "RateLimit-Policy", "X-Authz-Limit"), strings.ReplaceAll(
		`429 Retry-After=SECONDS RateLimit="day";r=0;t=SECONDS RateLimit-Policy="day";q=3;w=31622400 X-Authz-Limit=day`, "SECONDS", seconds))
	// It is one key's refusal, and one limit's.
	same(t, s.sendAll(t, 1, "GET /", "X-Who: you"), "200")

	// Of several, the one that refuses longest counts.
	same(t, s.sendAll(t, 2, "GET /minute", "X-Who: two"), "200 200")
	for range 5 {
		got := s.send(t, "GET /minute", "", "X-Who: two")
		same(t, got.show("X-Authz-Limit"), "429 X-Authz-Limit=minute")
	}
}

// A wait that ends is over: a second later the caller is admitted, by Redis.
func TestAShortRefusalIsForgottenInTime(t *testing.T) {
	s := startCached(t, cachedLimits+`
		[limit.second]
		match = { path = "/second" }
		key = []
		algorithm = "sliding_window"
		rate = "1/2s"`)
	admitted := func(who string) time.Time {
		for s.send(t, "GET /second", "", "X-Who: "+who).status != 200 {
		}
		return time.Now()
	}
	last := admitted("a")
	for _, who := range []string{"b", "c", "d"} {
		now := admitted(who)
		if gap := now.Sub(last); gap < 1900*time.Millisecond || gap > 20*time.Second {
			t.Errorf("admitted %v after the one before, want 2 s", gap)
		}
		last = now
	}
}

// Only a cost of 1 is remembered and refused: another cost may fit.
func TestOnlyACostOfOneIsRemembered(t *testing.T) {
	s := startCached(t, strings.ReplaceAll(cachedLimits, "cost_max = 1", "cost_max = 3"))
	asked := s.asked(t)
	same(t, s.sendAll(t, 2, "GET /", "X-Who: me", "X-Cost: 2"), "200 429")
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me", "X-Cost: 1"), "200")
	same(t, s.sendAll(t, 2, "GET /", "X-Who: me", "X-Cost: 1"), "429 429")
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me", "X-Cost: 2"), "429")
	if n := s.asked(t) - asked; n != 5 {
		t.Errorf("Redis was asked %d times, want 5 of 6: only the second refusal of cost 1 was remembered", n)
	}
}

func TestAnEditedLimitForgetsItsRefusals(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	raised := strings.ReplaceAll(cachedLimits, "3/366d", "5/366d")
	replaceFile(t, filepath.Join(s.dir, "limits.json"), string(compile(t, raised).JSON()))
	admitted := 0
	for until := time.Now().Add(20 * time.Second); admitted < 2; {
		if s.send(t, "GET /", "", "X-Who: me").status == 200 {
			admitted++
		}
		if time.Now().After(until) {
			t.Fatal("the raise is not heard of")
		}
	}
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me"), "429")
}

// Whoever resets a key writes another epoch, and is heard; a key that just goes is not.
func TestAResetIsHeard(t *testing.T) {
	ctx := context.Background()
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	for _, key := range s.redis.Keys(ctx, "authz:v1:*").Val() {
		s.redis.Del(ctx, key)
	}
	same(t, s.sendAll(t, 2, "GET /", "X-Who: me"), "429 429")
	s.redis.Incr(ctx, "authz:v1:epoch")
	reset := time.Now()
	for s.send(t, "GET /", "", "X-Who: me").status != 200 {
		if time.Since(reset) > 20*time.Second {
			t.Fatal("the reset is not heard of")
		}
	}
	same(t, s.sendAll(t, 3, "GET /", "X-Who: me"), "200 200 429")
}

// One worker reads the epoch, twice a second. While nobody can, refusals are Redis's to say.
func TestTheEpochIsReadTwiceASecondByOneWorker(t *testing.T) {
	s := startCached(t, cachedLimits)
	before, begun := s.redis.calls(t, "get"), time.Now()
	for s.redis.calls(t, "get") < before+6 {
	}
	took := time.Since(begun)
	if took < 2*time.Second || took > 30*time.Second {
		t.Errorf("6 reads took %v, want about 3 s", took)
	}
}
