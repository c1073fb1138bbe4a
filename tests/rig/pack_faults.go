package rig

import (
	"iter"
	"os"
	"strings"
	"testing"
)

// RedisReplies are errors of Redis and the kind of each, from vectors/kind. The service is asked in
// internal/store/redisstore/kind_test.go.
func RedisReplies(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile("vectors/kind/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(kind, reply string) bool) {
		for line := range strings.Lines(string(text)) {
			if kind, reply, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); !yield(kind, reply) {
				return
			}
		}
	}
}
