package openresty

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"authz/tests/rig"
)

const cachedLimits = `
	[limit.day]
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "3/366d"
	cost = "header:X-Cost"
	cost_max = 1
	[limit.a]
	match = { path = "/three" }
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "token_bucket"
	rate = "1/100d"
	burst = 1
	[limit.b]
	match = { path = "/three" }
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "token_bucket"
	rate = "1/300d"
	burst = 1
	[limit.c]
	match = { path = "/three" }
	key = ["header:X-Who"]
	missing = "share"
	algorithm = "token_bucket"
	rate = "1/200d"
	burst = 1
	[limit.watch]
	key = []
	algorithm = "fixed_window"
	rate = "1000/366d"
	mode = "shadow"`

// startCached is a pack with a refusal cache that works: an epoch has been read.
func startCached(t *testing.T, limits string) *rig.Site {
	t.Helper()
	s := rig.StartPack(t, rig.StartRedis(t), "refusal_cache = true", rig.SiteConf{Limits: limits})
	s.UseUp(t, "first")
	return s
}

func TestARefusalIsRememberedUntilItsWaitIsOver(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	asked, watched := s.Asked(t), s.Metric(t, `authz_decisions_total{limit="watch",verdict="shadow_admitted"}`)
	rig.Same(t, s.SendAll(t, 5, "GET /", "X-Who: me"), "429 429 429 429 429")
	if n := s.Asked(t); n != asked {
		t.Errorf("Redis was asked %d times about what is remembered", n-asked)
	}
	// Shadows are not evaluated then.
	rig.Same(t, s.Metric(t, `authz_decisions_total{limit="watch",verdict="shadow_admitted"}`), watched)
	got := s.Send(t, "GET /", "", "X-Who: me")
	seconds := got.Header.Get("Retry-After")
	rig.Same(t, got.Show("Retry-After", "RateLimit", "RateLimit-Policy", "X-Authz-Limit"), strings.ReplaceAll(
		`429 Retry-After=SECONDS RateLimit="day";r=0;t=SECONDS RateLimit-Policy="day";q=3;w=31622400 X-Authz-Limit=day`, "SECONDS", seconds))
	// It is one key's refusal, and one limit's.
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: you"), "200")
}

// Of several that are remembered the one that refuses longest answers, and each is counted.
func TestTheLongestOfTheRememberedRefusalsAnswers(t *testing.T) {
	s := startCached(t, cachedLimits)
	rig.Same(t, s.SendAll(t, 1, "GET /three", "X-Who: me"), "200")
	s.AwaitCached(t, "GET /three", "X-Who: me")
	limited := func() (text string) {
		for _, limit := range []string{"a", "b", "c"} {
			text += s.Metric(t, fmt.Sprintf(`authz_decisions_total{limit="%s",verdict="limited"}`, limit)) + " "
		}
		return text
	}
	asked, cached, before := s.Asked(t), s.Cached(t), limited()
	var n int
	fmt.Sscan(before, &n)
	rig.Same(t, before, fmt.Sprintf("%d %[1]d %[1]d ", n))
	for range 5 {
		rig.Same(t, s.Send(t, "GET /three", "", "X-Who: me").Show("X-Authz-Limit"), "429 X-Authz-Limit=b")
	}
	rig.Same(t, fmt.Sprint(s.Asked(t), s.Cached(t)), fmt.Sprint(asked, cached+5))
	rig.Same(t, limited(), fmt.Sprintf("%d %[1]d %[1]d ", n+5))
}

// A wait that ends is over: a second later at most the caller is admitted, by Redis, and not before.
func TestAShortRefusalIsForgottenInTime(t *testing.T) {
	s := startCached(t, cachedLimits+`
		[limit.second]
		match = { path = "/second" }
		key = []
		algorithm = "sliding_window"
		rate = "1/2s"`)
	rig.Same(t, s.SendAll(t, 1, "GET /second"), "200")
	var from, to time.Time // the last one was admitted between them
	for who := range 4 {
		cached := s.Cached(t)
		var sent, answered time.Time
		rig.Await(t, "next admission", func() bool {
			sent = time.Now()
			status := s.Send(t, "GET /second", "", fmt.Sprint("X-Who: ", who)).Status
			answered = time.Now()
			if status != 200 && !to.IsZero() && sent.Sub(to) > 3*time.Second {
				t.Fatalf("refused %v after the one before, want 2 s", sent.Sub(to))
			}
			return status == 200
		})
		if !from.IsZero() && answered.Sub(from) < 2*time.Second {
			t.Errorf("admitted %v after the one before, want 2 s", answered.Sub(from))
		}
		if s.Cached(t) == cached {
			t.Error("none of the refusals came from the cache")
		}
		from, to = sent, answered
	}
}

// The wait that Redis names counts from before it was asked: a reply that takes two seconds refuses
// nobody two seconds longer.
func TestALateReplyLengthensNoRefusal(t *testing.T) {
	r := rig.StartRedis(t)
	var late atomic.Bool
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		rig.OneByOne(client, server, func(request, reply []byte) (more bool) {
			if bytes.Contains(request, []byte("evalsha")) && late.Load() {
				time.Sleep(2 * time.Second) // this is the reply that takes its time
			}
			client.Write(reply)
			return true
		})
	})
	s := rig.StartPack(t, nil, frontOption("redis", front, "20s")+", refusal_cache = true", rig.SiteConf{Limits: `
		[limit.hour]
		key = ["header:X-Who"]
		missing = "share"
		algorithm = "token_bucket"
		rate = "1/h"
		burst = 1`})
	s.Redis = r
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: first"), "200")
	s.AwaitCached(t, "GET /", "X-Who: first") // the epoch is known

	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "200")
	end := time.Now().Add(time.Hour)
	late.Store(true)
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "429")
	asked, sent := s.Asked(t), time.Now()
	got := s.Send(t, "GET /", "", "X-Who: me")
	rig.Same(t, fmt.Sprint(got.Status, s.Asked(t)), fmt.Sprint(429, asked)) // by the cache
	seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
	if most := int(math.Ceil(end.Sub(sent).Seconds())); err != nil || seconds > most {
		t.Errorf("refused for %d s more, want %d s at most (%v)", seconds, most, err)
	}
}

// Only a cost of 1 is remembered and refused: another cost may fit.
func TestOnlyACostOfOneIsRemembered(t *testing.T) {
	s := startCached(t, strings.ReplaceAll(cachedLimits, "cost_max = 1", "cost_max = 3"))
	asked := s.Asked(t)
	rig.Same(t, s.SendAll(t, 2, "GET /", "X-Who: me", "X-Cost: 2"), "200 429")
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me", "X-Cost: 1"), "200")
	rig.Same(t, s.SendAll(t, 2, "GET /", "X-Who: me", "X-Cost: 1"), "429 429")
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me", "X-Cost: 2"), "429")
	if n := s.Asked(t) - asked; n != 5 {
		t.Errorf("Redis was asked %d times, want 5 of 6: only the second refusal of cost 1 was remembered", n)
	}
}

func TestAnEditedLimitForgetsItsRefusals(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	raised := strings.ReplaceAll(cachedLimits, "3/366d", "5/366d")
	rig.ReplaceFile(t, filepath.Join(s.Dir, "limits.json"), string(rig.Compile(t, raised).JSON()))
	for range 2 {
		rig.Await(t, "raised limit", func() bool { return s.Send(t, "GET /", "", "X-Who: me").Status == 200 })
	}
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "429")
}

// Whoever resets a key writes another epoch, and is heard; a key that just goes is not.
func TestAResetIsHeard(t *testing.T) {
	ctx := context.Background()
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	for _, key := range s.Redis.Keys(ctx, "authz:v1:{*").Val() {
		s.Redis.Del(ctx, key)
	}
	rig.Same(t, s.SendAll(t, 2, "GET /", "X-Who: me"), "429 429")
	s.Redis.Incr(ctx, "authz:v1:epoch")
	begun := s.Redis.Calls(t, "get") // of the epoch alone, while Redis is not asked
	rig.Await(t, "admission after the reset", func() bool {
		reads := s.Redis.Calls(t, "get") - begun
		status := s.Send(t, "GET /", "", "X-Who: me").Status
		if status != 200 && reads > 2 {
			t.Fatalf("still refused after %d reads of the epoch, which are two a second, want 2 at most", reads)
		}
		return status == 200
	})
	rig.Same(t, s.SendAll(t, 3, "GET /", "X-Who: me"), "200 200 429")
}

// One worker reads the epoch, twice a second.
func TestTheEpochIsReadTwiceASecondByOneWorker(t *testing.T) {
	s := startCached(t, cachedLimits)
	before, begun := s.Redis.Calls(t, "get"), time.Now()
	rig.Await(t, "sixth read", func() bool { return s.Redis.Calls(t, "get") >= before+6 })
	if took := time.Since(begun); took < 2*time.Second || took > 30*time.Second {
		t.Errorf("6 reads took %v, want about 3 s", took)
	}
}

// While nobody can read the epoch, refusals are Redis's to say.
func TestWithoutAnEpochRedisIsAsked(t *testing.T) {
	ctx := context.Background()
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	s.Redis.Eval(ctx, `redis.call("DEL", KEYS[1]) redis.call("LPUSH", KEYS[1], "no text")`, []string{"authz:v1:epoch"}) // GET fails
	rig.Await(t, "refusal by Redis", func() bool {
		asked := s.Asked(t)
		rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "429")
		return s.Asked(t) > asked
	})
	asked, cached := s.Asked(t), s.Cached(t)
	rig.Same(t, s.SendAll(t, 5, "GET /", "X-Who: me"), "429 429 429 429 429")
	rig.Same(t, fmt.Sprint(s.Asked(t), s.Cached(t)), fmt.Sprint(asked+5, cached))
	s.Redis.Del(ctx, "authz:v1:epoch")
	s.AwaitCached(t, "GET /", "X-Who: me")
}
