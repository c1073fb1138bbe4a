package rig

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
)

// OpenRedis is a store on a server of the test's own, which answers when the machine lets it.
func OpenRedis(t testing.TB, r *RedisServer) redisstore.Redis {
	t.Helper()
	s := OpenRedisURL(t, r.URL(), 10*time.Second)
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func OpenRedisURL(t testing.TB, url string, timeout time.Duration) redisstore.Redis {
	t.Helper()
	s, err := redisstore.Open(redisstore.Options{URL: url, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (r *RedisServer) Flush(t testing.TB) {
	t.Helper()
	if err := r.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}

// Calls is how often the server has run a command.
func (r *RedisServer) Calls(t testing.TB, command string) int {
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

// KindOf takes 1 by the store's own clock, and says what came of it.
func KindOf(s store.Store, checks ...limits.Check) string {
	results, err := s.Take(context.Background(), 0, checks, false, nil)
	switch {
	case err != nil:
		return redisstore.Kind(err)
	case Admitted(checks, results):
		return "admitted"
	}
	return "refused"
}

func (r *RedisServer) EachKeyExpires(t *testing.T) {
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
