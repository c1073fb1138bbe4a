package rig

import (
	"context"
	"fmt"
	"testing"
)

// Members are the members of a sliding window, oldest first.
func (s *Scripts) Members(t testing.TB, key string) string {
	t.Helper()
	members, err := s.ZRange(context.Background(), key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(members)
}
