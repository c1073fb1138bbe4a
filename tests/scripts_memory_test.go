package tests

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authz/limits"
)

// number is a number of INFO memory or stats.
func (s *scripts) number(t testing.TB, section, name string) int64 {
	t.Helper()
	_, rest, found := strings.Cut(s.Info(context.Background(), section).Val(), "\r\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(text, 10, 64)
	if !found || err != nil {
		t.Fatalf("INFO %s has no number %s: %q", section, name, text)
	}
	return n
}

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
	s := startScripts(t, "--maxmemory-policy", "noeviction")
	ctx := context.Background()
	ways := map[string]func(checks []limits.Check) string{
		"one request": func(checks []limits.Check) string { return s.take(0, false, checks...) },
		"a request each": func(checks []limits.Check) string {
			var each []request
			for _, c := range checks {
				each = append(each, request{checks: []limits.Check{c}})
			}
			return s.takeAll(0, each...)
		},
	}
	for way, take := range ways {
		for first := range 5 {
			s.ConfigSet(ctx, "maxmemory", fmt.Sprint(s.number(t, "memory", "used_memory")+150_000))
			full := 0
			for i := 0; full < 20; i++ {
				checks := named(t, fmt.Sprint(way, first, i))
				checks = append(slices.Clone(checks[first:]), checks[:first]...)
				written := 0
				answer := take(checks)
				for _, c := range checks {
					if s.expiresMS(t, string(c.Key)) > 0 {
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
		s.ConfigSet(ctx, "maxmemory", fmt.Sprint(s.number(t, "memory", "used_memory")+150_000))
		full := 0
		for i := 0; full < 20; i++ {
			c.Key = fmt.Appendf(nil, "single%d:%s", i, c.Limit.Name)
			answer := s.single(0, c, false)
			isFull, written := strings.HasPrefix(answer, "OOM "), s.expiresMS(t, string(c.Key)) > 0
			if isFull == written || !isFull && !strings.HasPrefix(answer, "1 ") {
				t.Fatalf("%s, call %d: written %v, answer %s", c.Limit.Name, i, written, answer)
			}
			if isFull {
				full++
			}
		}
		s.ConfigSet(ctx, "maxmemory", "0")
	}
	if n := s.number(t, "stats", "evicted_keys"); n != 0 {
		t.Errorf("%d keys are evicted, want none", n)
	}
}

// A full Redis grows by nobody: keys that are there are not touched, and none is added, by any algorithm.
func TestAFullRedisDoesNotGrow(t *testing.T) {
	s := startScripts(t, "--maxmemory-policy", "noeviction")
	old := named(t, "old")
	for i := range old {
		old[i].Key = append(old[i].Key, strings.Repeat("k", 1000)...)
	}
	s.take(scriptsNow, false, old...)
	s.take(scriptsNow+60000001, false, old[3]) // has a member that the next charge would remove
	before, writes := s.stored(t), s.changes(t)
	s.ConfigSet(context.Background(), "maxmemory", "1")
	for i := range 200 {
		fresh := named(t, fmt.Sprint("fresh", i))
		calls := []string{s.take(scriptsNow+120000002, false, old...), s.take(scriptsNow, false, fresh...)}
		for j := range fresh {
			calls = append(calls, s.single(scriptsNow+120000002, old[j], false), s.single(scriptsNow, fresh[j], false),
				s.takeAll(scriptsNow, request{checks: fresh[j : j+1]}, request{checks: old[j : j+1]}))
		}
		for _, answer := range calls {
			if !strings.HasPrefix(answer, "OOM ") {
				t.Fatalf("answer is %q, want an OOM error", answer)
			}
		}
	}
	if after := s.stored(t); after != before || s.changes(t) != writes {
		t.Errorf("writes went from\n%sto %s writes with\n%s", writes, s.changes(t), after)
	}
	if got := s.DBSize(context.Background()).Val(); got != 5 {
		t.Errorf("%d keys, want the 5 of before", got)
	}
}
