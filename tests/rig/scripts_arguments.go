package rig

import (
	"context"
	"strings"
	"testing"
)

// Bad returns a closure that calls a script and wants this error, and nothing written. In args "_" is
// a space and "\n" a line's end.
func (s *Scripts) Bad(t *testing.T) func(want, script, keys, args string) {
	return func(want, script, keys, args string) {
		t.Helper()
		var argv []any
		for arg := range strings.FieldsSeq(args) {
			argv = append(argv, strings.NewReplacer("_", " ", `\n`, "\n").Replace(arg))
		}
		if got := s.Run(script, strings.Fields(keys), argv...); got != want {
			t.Errorf("%s %s , %s\ngot  %s\nwant %s", script, keys, args, got, want)
		}
		if n := s.DBSize(context.Background()).Val(); n != 0 {
			t.Fatalf("%s %s , %s: %d keys written, want none", script, keys, args, n)
		}
	}
}
