package tests

import (
	"fmt"
	"strings"
	"testing"
)

// forgetBuckets deletes all buckets, and leaves the epoch.
func (s *site) forgetBuckets(t testing.TB) {
	t.Helper()
	for _, key := range s.redis.Keys(t.Context(), "authz:v1:{*").Val() {
		s.redis.Del(t.Context(), key)
	}
}

// awaitEpochs waits until the epoch was read so many times more.
func (s *site) awaitEpochs(t testing.TB, count int) {
	t.Helper()
	begun := s.redis.calls(t, "get")
	await(t, "readings of the epoch", func() bool { return s.redis.calls(t, "get") >= begun+count })
}

// Each loaded set begins without cached refusals, also when the numbers come back and no request came meanwhile.
func TestTheRefusalCacheEndsWithEachLoadedSet(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	s.forgetBuckets(t)
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me"), "429") // cached
	for i, limits := range []string{strings.ReplaceAll(cachedLimits, "3/366d", "5/366d"), cachedLimits} {
		replaceFile(t, s.policyFile(), string(compile(t, limits).JSON()))
		s.awaitLog(t, 2*(i+1), "new limits, version")
	}
	same(t, s.sendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
}

// A Redis that is empty has refused nobody, however short it was away.
func TestTheRefusalCacheEndsWithAnEmptyRedis(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	s.redis.FlushAll(t.Context())
	s.awaitEpochs(t, 2)
	same(t, s.sendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
	s.awaitCached(t, "GET /", "X-Who: me")
	if ttl := s.redis.TTL(t.Context(), "authz:v1:epoch").Val(); ttl <= 0 {
		t.Errorf("the epoch expires in %v, want an expiry", ttl)
	}
}

// An epoch that could not be read ends the refusal cache, though it is the same again later.
func TestTheRefusalCacheEndsWithAnEpochThatCannotBeRead(t *testing.T) {
	ctx := t.Context()
	s := startCached(t, cachedLimits)
	s.redis.Set(ctx, "authz:v1:epoch", "mine", 0)
	s.awaitEpochs(t, 2)
	s.useUp(t, "me")
	s.redis.Eval(ctx, `redis.call("RENAME", KEYS[1], "kept") redis.call("LPUSH", KEYS[1], "no text")`, []string{"authz:v1:epoch"})
	s.awaitEpochs(t, 2)
	s.forgetBuckets(t)
	s.redis.Eval(ctx, `redis.call("RENAME", "kept", KEYS[1])`, []string{"authz:v1:epoch"})
	s.awaitEpochs(t, 2)
	same(t, fmt.Sprint(s.redis.Get(ctx, "authz:v1:epoch").Val()), "mine")
	same(t, s.sendAll(t, 4, "GET /", "X-Who: me"), "200 200 200 429")
}
