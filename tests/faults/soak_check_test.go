package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

const underFaults = ", under faults"

// report prints what there was. Leaky buckets hold their answers, for up to 200 ms: they are not among the times.
func (s *soak) report(t *testing.T) {
	statuses := map[string]int{}
	times := map[string][]time.Duration{}
	for _, a := range s.answers {
		statuses[strings.TrimSpace(a.status+" "+a.degraded)]++
		where := s.Doors[a.door].Name + ", no fault"
		if slices.ContainsFunc(s.faults, func(f soakSuffering) bool { return a.to.After(f.from) && a.from.Before(f.to) }) {
			where = s.Doors[a.door].Name + underFaults
		}
		if !strings.HasPrefix(a.limit, "leaky") {
			times[where] = append(times[where], a.to.Sub(a.from))
		}
	}
	var back []time.Duration
	for _, f := range s.faults {
		back = append(back, f.well.Sub(f.to))
	}
	slices.Sort(back)
	t.Logf("%d answers, %d faults: %v", len(s.answers), len(s.faults), statuses)
	for _, where := range slices.Sorted(maps.Keys(times)) {
		what := fmt.Sprintf("%s: p99 of %d answers", where, len(times[where]))
		if strings.HasSuffix(where, underFaults) {
			holds(t, what, percentile(times[where], 99), soakTimeout+10*time.Millisecond)
		} else {
			t.Logf("%s: %v", what, percentile(times[where], 99))
		}
		if half := percentile(times[where], 50); half > soakTimeout+rig.Grace {
			t.Errorf("%s: half of the answers took %v, want less than %v", where, half, soakTimeout)
		}
	}
	t.Logf("normal again after %v in half of the cases, %v at most", back[len(back)/2].Round(time.Millisecond), back[len(back)-1].Round(time.Millisecond))
}

// checkAnswers: each is one that its limit may give, by its on_error if Redis could not decide.
func (s *soak) checkAnswers(t *testing.T) {
	for what, n := range s.wrong() {
		t.Errorf("%d times %s", n, what)
	}
}

// wrong is the answers that should not have been, and how often they were.
func (s *soak) wrong() map[string]int {
	mayBe := map[string]string{"free": "200", "forbidden": "403", "several": "200, 429, 503 deny"}
	for name := range s.set {
		_, onError, _ := strings.Cut(name, "-")
		mayBe[name] = map[string]string{
			"allow": "200, 429, 200 allow",
			"local": "200, 429, 200 local, 429 local",
			"deny":  "200, 429, 503 deny",
		}[onError]
	}
	wrong := map[string]int{}
	for _, answers := range s.byDoor() {
		for i, a := range answers {
			got := strings.TrimSpace(a.status + " " + a.degraded)
			switch {
			case a.transmission != nil:
				wrong[a.transmission.Error()]++
			case slices.Contains(strings.Split(mayBe[a.limit], ", "), got):
			case strings.HasSuffix(a.limit, "-allow") && (got == "200 local" || got == "429 local"):
				if why := s.mayBeLocal(answers, i); why != "" {
					wrong[fmt.Sprintf("%s of %s through the %s, %s", got, a.limit, s.Doors[a.door].Name, why)]++
				}
			default:
				wrong[fmt.Sprintf("%s of %s", got, a.limit)]++
			}
		}
	}
	return wrong
}

// checkBounds: while Redis decided, no limit has admitted more than it may; and where each instance decided
// on its own, no more than its share.
func (s *soak) checkBounds(t *testing.T) {
	admitted := map[string][]span{}
	for _, a := range s.answers {
		if a.status != "200" || s.set[a.limit] == nil && a.limit != "several" {
			continue
		}
		for name := range s.set {
			several := a.limit == "several" && strings.HasSuffix(name, "-deny") && name != "leaky_bucket-deny"
			if name != a.limit && !several {
				continue
			}
			switch a.degraded {
			case "":
				admitted[name+" by Redis for "+a.user] = append(admitted[name+" by Redis for "+a.user], a.span)
			case "local":
				by := fmt.Sprint(name, " by the share of door ", a.door, " for ", a.user)
				admitted[by] = append(admitted[by], a.span)
			}
		}
	}
	for _, by := range slices.Sorted(maps.Keys(admitted)) {
		name, _, _ := strings.Cut(by, " ")
		l, parts := *s.set[name], [][]span{admitted[by]}
		if strings.Contains(by, "by Redis") {
			parts = withoutLoss(admitted[by], s.losses)
		} else {
			l.Rate = *l.Rate.Local()
		}
		for _, part := range parts {
			if what := overrun(&l, part); what != "" {
				t.Errorf("%s: %s", by, what)
			}
		}
	}
}

func (s *soak) hulls(t *testing.T) (all []rig.Hull) {
	for _, a := range s.services {
		all = append(all, a.Hull(t))
	}
	return append(all, s.pack.Hull(t))
}

// checkLeaks: with the clients gone, all is as it was, but for the connections that wait to be used again.
func (s *soak) checkLeaks(t *testing.T, before []rig.Hull) {
	const kept = 40
	for _, d := range s.Doors {
		d.Close()
	}
	rig.Await(t, "end of what requests have left behind", func() bool {
		for i, h := range s.hulls(t) {
			if h.Goroutines > before[i].Goroutines+20 || h.Sockets > before[i].Sockets+kept {
				return false
			}
		}
		return true
	})
	rig.Await(t, "end of connections to Redis", func() bool { return len(strings.Split(s.Redis.ClientList(t.Context()).Val(), "\n")) < 3*kept })
	for i, h := range s.hulls(t) {
		t.Logf("door %d: %+v, before %+v", i, h, before[i])
		if h.MemoryMB > 3*before[i].MemoryMB+64 {
			t.Errorf("door %d: %d MB, want about the %d of the beginning", i, h.MemoryMB, before[i].MemoryMB)
		}
	}
	s.Redis.EachKeyExpires(t)
	for _, a := range s.services {
		rig.Same(t, a.Metrics(t, "authz_panics_total"), "authz_panics_total 0\n")
	}
}
