package rig

import (
	"context"
	"slices"
	"testing"
)

// MustStoreAs compares all that two servers hold, and for how long to half a second: their clocks are
// one, but a call to each takes its time.
func (s *Scripts) MustStoreAs(t *testing.T, other *Scripts) {
	t.Helper()
	ctx := context.Background()
	keys := s.Keys(ctx, "*").Val()
	slices.Sort(keys)
	for _, key := range keys {
		if a, b := s.State(key), other.State(key); a != b {
			t.Fatalf("%s holds %s, want %s", key, a, b)
		}
		if a, b := s.ExpiresMS(t, key), other.ExpiresMS(t, key); a-b > 5000 || b-a > 5000 { // the other server was started, and asked, some time before
			t.Fatalf("%s expires at %d, want %d", key, a, b)
		}
	}
	if a, b := len(keys), int(other.DBSize(ctx).Val()); a != b {
		t.Fatalf("%d keys %s, want %d", a, keys, b)
	}
}
