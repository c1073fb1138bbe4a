package rig

import (
	"strings"
	"testing"
)

// Eval runs Lua code in an nginx of the pack and compares what it says, a line for each want.
func (s *Site) Eval(t *testing.T, code string, want ...string) {
	t.Helper()
	got := strings.TrimSpace(s.Send(t, "POST /eval", code).Body)
	if got != strings.Join(want, "\n") {
		t.Errorf("%s\ngot  %s\nwant %s", code, got, strings.Join(want, "\n"))
	}
}
