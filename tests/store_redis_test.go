package tests

import (
	"context"
	"testing"
	"time"

	"authz/store"
)

// openRedis is a store on a server of the test's own, which answers when the machine lets it.
func openRedis(t testing.TB, r *redisServer) *store.Redis {
	t.Helper()
	s, err := store.OpenRedis(store.RedisOptions{URL: r.url(), Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *redisServer) flush(t testing.TB) {
	t.Helper()
	if err := r.FlushAll(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
}
