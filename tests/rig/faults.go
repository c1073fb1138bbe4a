package rig

import (
	"fmt"
	"testing"
	"time"
)

// A Redis that does not answer costs briefly, one that says what is wrong has ample time on a busy machine.
// Grace is what that may add to an answer. go-redis by its defaults waits for a Redis that hangs four times
// for three seconds; how much less the answers take, the flood and the soak print.
const (
	Briefly = 100 * time.Millisecond
	Amply   = 20 * time.Second
	Grace   = 5 * time.Second
)

// MustDo is a command of the test's own, which must succeed.
func (r *RedisServer) MustDo(t testing.TB, words ...any) {
	t.Helper()
	if err := r.Do(t.Context(), words...).Err(); err != nil {
		t.Fatal(fmt.Sprintln(words...), err)
	}
}
