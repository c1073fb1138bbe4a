package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const ScriptsNow = 1767225600000000 // 2026-01-01T00:00:00Z

// Stored is everything in Redis: each key with what it holds and the millisecond it expires at.
func (s *Scripts) Stored(t testing.TB) string {
	t.Helper()
	keys := s.Keys(context.Background(), "*").Val()
	slices.Sort(keys)
	var all strings.Builder
	for _, key := range keys {
		fmt.Fprintln(&all, key, s.State(key), s.ExpiresMS(t, key))
	}
	return all.String()
}

// ExpiresMS is when a key expires, in milliseconds since 1970; -1 never, -2 no such key.
func (s *Scripts) ExpiresMS(t testing.TB, key string) int64 {
	t.Helper()
	at, err := s.Do(context.Background(), "PEXPIRETIME", key).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// Changes is how many writes Redis has counted.
func (s *Scripts) Changes(t testing.TB) string {
	t.Helper()
	_, rest, found := strings.Cut(s.Info(context.Background(), "persistence").Val(), "rdb_changes_since_last_save:")
	if !found {
		t.Fatal("no rdb_changes_since_last_save in INFO")
	}
	count, _, _ := strings.Cut(rest, "\r\n")
	return count
}
