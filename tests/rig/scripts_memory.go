package rig

import (
	"context"
	"strconv"
	"strings"
	"testing"
)

// Number is a number of INFO memory or stats.
func (s *Scripts) Number(t testing.TB, section, name string) int64 {
	t.Helper()
	_, rest, found := strings.Cut(s.Info(context.Background(), section).Val(), "\r\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		t.Fatalf("INFO %s has no number %s: %q", section, name, text)
	}
	return n
}
