package rig

import (
	"strconv"
	"testing"
)

// UseUp uses up the three of a caller, and returns when refusals come from the cache.
func (s *Site) UseUp(t *testing.T, who string) {
	t.Helper()
	Same(t, s.SendAll(t, 3, "GET /", "X-Who: "+who, "X-Cost: 1"), "200 200 200")
	s.AwaitCached(t, "GET /", "X-Who: "+who, "X-Cost: 1")
}

// AwaitCached sends a request that is refused, until the cache refuses it.
func (s *Site) AwaitCached(t *testing.T, line string, header ...string) {
	t.Helper()
	before := s.Cached(t)
	Await(t, "refusal from the cache", func() bool {
		Same(t, s.SendAll(t, 1, line, header...), "429")
		return s.Cached(t) > before
	})
}

// Cached is how many requests the cache refused.
func (s *Site) Cached(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(s.Metric(t, "authz_remembered_refusals_total"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
