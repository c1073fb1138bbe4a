package rig

import (
	"testing"
)

// ForgetBuckets deletes all buckets, and leaves the epoch.
func (s *Site) ForgetBuckets(t testing.TB) {
	t.Helper()
	for _, key := range s.Redis.Keys(t.Context(), "authz:v1:{*").Val() {
		s.Redis.Del(t.Context(), key)
	}
}

// AwaitEpochs waits until the epoch was read so many times more.
func (s *Site) AwaitEpochs(t testing.TB, count int) {
	t.Helper()
	begun := s.Redis.Calls(t, "get")
	Await(t, "readings of the epoch", func() bool { return s.Redis.Calls(t, "get") >= begun+count })
}
