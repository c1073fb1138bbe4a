package redis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

// named are checks of one of each algorithm on keys of their own.
func named(t testing.TB, name string) (checks []limits.Check) {
	checks = oneOfEach(t)
	for i := range checks {
		checks[i].Key = fmt.Appendf(nil, "%s:%s", name, checks[i].Limit.Name)
	}
	return checks
}

// C111: on the way up to the cap each call is charged whole, and from there on none: whichever algorithm
// comes first, by take or by the script of one algorithm, for one request or for many in a call.
func TestACallIsChargedWholeOrNotAtAllAtTheCap(t *testing.T) {
	s := rig.StartScripts(t, "--maxmemory-policy", "noeviction")
	ctx := context.Background()
	ways := map[string]func(checks []limits.Check) string{
		"one request": func(checks []limits.Check) string { return s.Take(0, false, checks...) },
		"a request each": func(checks []limits.Check) string {
			var each []rig.Request
			for _, c := range checks {
				each = append(each, rig.Request{Checks: []limits.Check{c}})
			}
			return s.TakeAll(0, each...)
		},
	}
	for way, take := range ways {
		for first := range 5 {
			s.ConfigSet(ctx, "maxmemory", fmt.Sprint(s.Number(t, "memory", "used_memory")+150_000))
			full := 0
			for i := 0; full < 20; i++ {
				checks := named(t, fmt.Sprint(way, first, i))
				checks = append(slices.Clone(checks[first:]), checks[:first]...)
				written := 0
				answer := take(checks)
				for _, c := range checks {
					if s.ExpiresMS(t, string(c.Key)) > 0 {
						written++
					}
				}
				isFull := strings.HasPrefix(answer, "OOM ")
				if isFull {
					full++
				}
				if isFull && written != 0 || !isFull && (written != 5 || !strings.HasPrefix(answer, "1 ")) {
					t.Fatalf("%s, call %d from %s: %d keys are written, answer %s", way, i, checks[0].Limit.Name, written, answer)
				}
				if i == 0 && isFull {
					t.Fatalf("%s: full from the first", way)
				}
			}
			s.ConfigSet(ctx, "maxmemory", "0")
		}
	}
	for _, c := range oneOfEach(t) {
		s.ConfigSet(ctx, "maxmemory", fmt.Sprint(s.Number(t, "memory", "used_memory")+150_000))
		full := 0
		for i := 0; full < 20; i++ {
			c.Key = fmt.Appendf(nil, "single%d:%s", i, c.Limit.Name)
			answer := s.Single(0, c, false)
			isFull, written := strings.HasPrefix(answer, "OOM "), s.ExpiresMS(t, string(c.Key)) > 0
			if isFull == written || !isFull && !strings.HasPrefix(answer, "1 ") {
				t.Fatalf("%s, call %d: written %v, answer %s", c.Limit.Name, i, written, answer)
			}
			if isFull {
				full++
			}
		}
		s.ConfigSet(ctx, "maxmemory", "0")
	}
	if n := s.Number(t, "stats", "evicted_keys"); n != 0 {
		t.Errorf("%d keys are evicted, want none", n)
	}
}

// A full Redis grows by nobody: keys that are there are not touched, and none is added, by any algorithm.
func TestAFullRedisDoesNotGrow(t *testing.T) {
	s := rig.StartScripts(t, "--maxmemory-policy", "noeviction")
	old := named(t, "old")
	for i := range old {
		old[i].Key = append(old[i].Key, strings.Repeat("k", 1000)...)
	}
	s.Take(rig.ScriptsNow, false, old...)
	s.Take(rig.ScriptsNow+60000001, false, old[3]) // has a member that the next charge would remove
	before, writes := s.Stored(t), s.Changes(t)
	s.ConfigSet(context.Background(), "maxmemory", "1")
	for i := range 200 {
		fresh := named(t, fmt.Sprint("fresh", i))
		calls := []string{s.Take(rig.ScriptsNow+120000002, false, old...), s.Take(rig.ScriptsNow, false, fresh...)}
		for j := range fresh {
			calls = append(calls, s.Single(rig.ScriptsNow+120000002, old[j], false), s.Single(rig.ScriptsNow, fresh[j], false),
				s.TakeAll(rig.ScriptsNow, rig.Request{Checks: fresh[j : j+1]}, rig.Request{Checks: old[j : j+1]}))
		}
		for _, answer := range calls {
			if !strings.HasPrefix(answer, "OOM ") {
				t.Fatalf("answer is %q, want an OOM error", answer)
			}
		}
	}
	if after := s.Stored(t); after != before || s.Changes(t) != writes {
		t.Errorf("writes went from\n%sto %s writes with\n%s", writes, s.Changes(t), after)
	}
	if got := s.DBSize(context.Background()).Val(); got != 5 {
		t.Errorf("%d keys, want the 5 of before", got)
	}
}
