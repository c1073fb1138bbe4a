package openresty

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// Each loaded set begins without cached refusals, also when the numbers come back and no request came meanwhile.
func TestTheRefusalCacheEndsWithEachLoadedSet(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	s.ForgetBuckets(t)
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "429") // cached
	for i, limits := range []string{strings.ReplaceAll(cachedLimits, "3/366d", "5/366d"), cachedLimits} {
		rig.ReplaceFile(t, s.PolicyFile(), string(rig.Compile(t, limits).JSON()))
		s.AwaitLog(t, 2*(i+1), "new limits, version")
	}
	rig.Same(t, s.SendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
}

// A Redis that is empty has refused nobody, however short it was away.
func TestTheRefusalCacheEndsWithAnEmptyRedis(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	s.Redis.FlushAll(t.Context())
	s.AwaitEpochs(t, 2)
	rig.Same(t, s.SendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
	s.AwaitCached(t, "GET /", "X-Who: me")
	if ttl := s.Redis.TTL(t.Context(), "authz:v1:epoch").Val(); ttl <= 0 {
		t.Errorf("the epoch expires in %v, want an expiry", ttl)
	}
}

// An epoch that could not be read ends the refusal cache, though it is the same again later.
func TestTheRefusalCacheEndsWithAnEpochThatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	s := startCached(t, cachedLimits)
	s.Redis.Set(ctx, "authz:v1:epoch", "mine", 0)
	s.AwaitEpochs(t, 2)
	s.UseUp(t, "me")
	s.Redis.Eval(ctx, `redis.call("RENAME", KEYS[1], "kept") redis.call("LPUSH", KEYS[1], "no text")`, []string{"authz:v1:epoch"})
	s.AwaitEpochs(t, 2)
	s.ForgetBuckets(t)
	s.Redis.Eval(ctx, `redis.call("RENAME", "kept", KEYS[1])`, []string{"authz:v1:epoch"})
	s.AwaitEpochs(t, 2)
	rig.Same(t, fmt.Sprint(s.Redis.Get(ctx, "authz:v1:epoch").Val()), "mine")
	rig.Same(t, s.SendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
}
