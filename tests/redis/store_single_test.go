package redis

import (
	"context"
	"fmt"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// A single check is decided by the script of its algorithm, by Redis's own clock as by one that is handed in,
// which the vectors are tried with. In a window of a year time does not count.
func TestASingleCheckIsDecidedByRedissClock(t *testing.T) {
	r := rig.StartRedis(t)
	redis, memory := rig.OpenRedis(t, r), store.NewMemory(100)
	ask := func(s store.Store, c limits.Check, peek bool) string {
		t.Helper()
		results, err := s.Take(context.Background(), 0, []limits.Check{c}, peek, nil)
		if err != nil || len(results) != 1 {
			t.Fatalf("%d results and the error %v, want a result", len(results), err)
		}
		return fmt.Sprint(results[0].Allowed, results[0].Remaining)
	}
	for _, algorithm := range rig.Algorithms {
		for _, shadow := range []bool{false, true} {
			l := rig.NewLimit(t, algorithm+fmt.Sprint(shadow), algorithm, 5, 366*86400e6, 5)
			l.Shadow = shadow
			for i, step := range []struct {
				cost int64
				peek bool
			}{{1, true}, {1, false}, {2, true}, {2, false}, {2, false}, {1, true}, {1, false}, {3, true}, {3, false}, {9, false}} {
				c := rig.Check(l, "u", step.cost)
				got, want := ask(redis, c, step.peek), ask(memory, c, step.peek)
				rig.Same(t, fmt.Sprint(l.Name, i, got), fmt.Sprint(l.Name, i, want))
			}
		}
	}
	r.LPush(context.Background(), "authz:v1:{bad}:x:fw", "x")
	_, err := redis.Take(context.Background(), 0, []limits.Check{rig.Check(rig.NewLimit(t, "x", "fixed_window", 5, 1e6, 0), "bad", 1)}, false, nil)
	rig.Same(t, fmt.Sprint(err), "WRONGTYPE a key of this request holds another Redis type: delete it, or choose another --redis-prefix")
	r.ScriptFlush(context.Background())
	rig.Same(t, rig.KindOf(redis, rig.Check(rig.NewLimit(t, "x", "fixed_window", 5, 1e6, 0), "good", 1)), "admitted")
	rig.Same(t, fmt.Sprint(r.Calls(t, "eval")), "1")
}
