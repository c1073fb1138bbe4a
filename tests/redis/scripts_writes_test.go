package redis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

// oneOfEach is a limit of 3 for each algorithm, on a key of its own.
func oneOfEach(t testing.TB) (checks []limits.Check) {
	for name := range strings.FieldsSeq("token_bucket leaky_bucket fixed_window sliding_window sliding_counter") {
		burst := int64(3)
		if name == "leaky_bucket" {
			burst = 2
		}
		checks = append(checks, rig.Check(rig.NewLimit(t, name, name, 3, 60000000, burst), "u", 1))
	}
	return checks
}

func TestARefusalAndAPeekWriteNothing(t *testing.T) {
	s := rig.StartScripts(t)
	checks := oneOfEach(t)
	for i := range checks { // two of the three are used, and the log has a member that is not counted
		checks[i].Cost = 2
	}
	s.Take(rig.ScriptsNow-60000000, false, checks[3])
	s.Take(rig.ScriptsNow, false, checks...)
	s.Persist(context.Background(), string(checks[2].Key))
	before, writes := s.Stored(t), s.Changes(t)
	quiet := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("answer is %s, want %s", got, want)
		}
		if after := s.Stored(t); after != before || s.Changes(t) != writes {
			t.Errorf("%s writes to go from\n%sto %s writes with\n%s", writes, before, s.Changes(t), after)
		}
	}
	// Two more do not fit in any of them.
	quiet(s.Single(rig.ScriptsNow, checks[0], false), "0 1 20000000 40000000")
	quiet(s.Single(rig.ScriptsNow, checks[1], false), "0 1 20000000 40000000")
	quiet(s.Single(rig.ScriptsNow, checks[2], false), "0 1 60000000 60000000")
	quiet(s.Single(rig.ScriptsNow, checks[3], false), "0 1 60000000 60000000")
	quiet(s.Single(rig.ScriptsNow, checks[4], false), "0 1 90000000 120000000")
	quiet(s.Take(rig.ScriptsNow, false, checks...), "0 0 1 20000000 40000000 0 1 20000000 40000000 "+
		"0 1 60000000 60000000 0 1 60000000 60000000 0 1 90000000 120000000")
	// One more does, but a peek takes nothing.
	for i := range checks {
		checks[i].Cost = 1
	}
	quiet(s.Single(rig.ScriptsNow, checks[0], true), "1 1 0 40000000")
	quiet(s.Single(rig.ScriptsNow, checks[1], true), "1 1 0 40000000")
	quiet(s.Single(rig.ScriptsNow, checks[2], true), "1 1 0 60000000")
	quiet(s.Single(rig.ScriptsNow, checks[3], true), "1 1 0 60000000")
	quiet(s.Single(rig.ScriptsNow, checks[4], true), "1 1 0 120000000")
	quiet(s.Take(rig.ScriptsNow, true, checks...), "1 1 1 0 40000000 1 1 0 40000000 1 1 0 60000000 1 1 0 60000000 1 1 0 120000000")
	// Nor does a request of which one check refuses.
	checks[4].Cost = 2
	quiet(s.Take(rig.ScriptsNow, false, checks...), "0 1 1 0 40000000 1 1 0 40000000 1 1 0 60000000 1 1 0 60000000 0 1 90000000 120000000")
	// A key that nobody used is not made.
	fresh := checks[3]
	fresh.Key = []byte("fresh")
	fresh.Cost = 4
	quiet(s.Single(rig.ScriptsNow, fresh, false), "0 3 -1 0")
	quiet(s.Take(rig.ScriptsNow, false, fresh), "0 0 3 -1 0")
}

func TestEveryChargeSetsTheExpiryThatItPromises(t *testing.T) {
	s := rig.StartScripts(t)
	random := rand.New(rand.NewPCG(3, 4))
	own := int64(rig.ScriptsNow)
	for step := range 600 {
		c := oneOfEach(t)[step%5]
		nowUS, spareMS := int64(0), int64(0)
		if random.IntN(2) == 0 {
			own += random.Int64N(30000000) - 5000000
			nowUS, spareMS = own, 60000
		}
		// Callers with a clock of their own and callers without have different keys.
		c.Key = fmt.Appendf(nil, "%s:%d", c.Key, spareMS)
		if random.IntN(10) == 0 { // a foreign hand
			s.Persist(context.Background(), string(c.Key))
		}
		was, earliest := s.ExpiresMS(t, string(c.Key)), s.Time(context.Background()).Val()
		var reply string
		if random.IntN(2) == 0 {
			reply = s.Single(nowUS, c, false)
		} else {
			_, reply, _ = strings.Cut(s.Take(nowUS, false, c), " ")
		}
		latest := s.Time(context.Background()).Val()
		r, expires := rig.Results(t, reply)[0], s.ExpiresMS(t, string(c.Key))
		lives := (r.ResetUS+999)/1000 + spareMS
		if !r.Allowed {
			if expires != was {
				t.Errorf("%s refused: %s, and the expiry went from %d to %d", c.Limit.Name, reply, was, expires)
			}
		} else if expires < earliest.UnixMilli()+lives || expires > latest.UnixMilli()+lives {
			t.Errorf("%s charged: %s, and the key expires at %d, want %d ms after %d to %d",
				c.Limit.Name, reply, expires, lives, earliest.UnixMilli(), latest.UnixMilli())
		}
	}
}

func TestAKeyWithoutExpiryHealsAtTheNextCharge(t *testing.T) {
	s := rig.StartScripts(t)
	checks := oneOfEach(t)
	for _, c := range checks {
		s.Single(rig.ScriptsNow, c, false)
		s.Persist(context.Background(), string(c.Key))
		if at := s.ExpiresMS(t, string(c.Key)); at != -1 {
			t.Errorf("%s expires at %d after PERSIST, want -1", c.Key, at)
		}
	}
	for _, c := range checks[:4] {
		s.Single(rig.ScriptsNow, c, false)
	}
	s.Take(rig.ScriptsNow, false, checks[4])
	for _, c := range checks {
		if at := s.ExpiresMS(t, string(c.Key)); at < time.Now().UnixMilli() {
			t.Errorf("%s expires at %d after a charge, want a time to come", c.Key, at)
		}
	}
}

func TestARedisThatIsOutOfMemoryRefusesACallWhole(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	checks := oneOfEach(t)
	log := checks[3]
	s.Take(rig.ScriptsNow-60000000, false, log) // not counted any more: a charge would remove it
	s.Take(rig.ScriptsNow, false, checks...)
	before, writes := s.Stored(t), s.Changes(t)
	s.ConfigSet(ctx, "maxmemory", "1mb")
	wantOOM := func(got string) {
		t.Helper()
		if !strings.Contains(got, "OOM command not allowed when used memory > 'maxmemory'") {
			t.Errorf("answer is %q, want an OOM error", got)
		}
		if after := s.Stored(t); after != before || s.Changes(t) != writes {
			t.Errorf("%s writes to go from\n%sto %s writes with\n%s", writes, before, s.Changes(t), after)
		}
	}
	for _, c := range checks {
		wantOOM(s.Single(rig.ScriptsNow, c, false))
		wantOOM(s.Take(rig.ScriptsNow, false, c))
		c.Key = append([]byte("fresh:"), c.Key...)
		wantOOM(s.Single(rig.ScriptsNow, c, false))
		wantOOM(s.Take(rig.ScriptsNow, false, c))
	}
	for i := range checks { // each algorithm's write comes first once
		wantOOM(s.Take(rig.ScriptsNow, false, append(slices.Clone(checks[i:]), checks[:i]...)...))
	}
	// What writes nothing is answered all the same.
	if got := s.Take(rig.ScriptsNow, true, log); got != "1 1 2 0 60000000" {
		t.Errorf("a peek answers %s, want 1 1 2 0 60000000", got)
	}
	log.Cost = 3
	if got := s.Take(rig.ScriptsNow, false, log); got != "0 0 2 60000000 60000000" {
		t.Errorf("a refusal answers %s, want 0 0 2 60000000 60000000", got)
	}
	s.ConfigSet(ctx, "maxmemory", "0")
	log.Cost = 1
	if got := s.Take(rig.ScriptsNow, false, log); got != "1 1 1 0 60000000" {
		t.Errorf("with memory again: %s, want 1 1 1 0 60000000", got)
	}
}

func TestTheServersTimeIsReadToTheMicrosecond(t *testing.T) {
	s := rig.StartScripts(t)
	c := rig.Check(rig.NewLimit(t, "api", "token_bucket", 1, 86400000000, 1000), "u", 1)
	micros := func() int64 { return s.Time(context.Background()).Val().UnixMicro() }
	for range 100 { // one in ten falls on a microsecond of fewer than six digits
		before := micros()
		s.Single(0, c, false)
		var used, w, stored int64
		if _, err := fmt.Sscanf(s.State(string(c.Key)), "%d:%d:%d", &used, &w, &stored); err != nil {
			t.Fatal(err)
		}
		if after := micros(); stored < before || stored > after {
			t.Errorf("stored time is %d, want from %d to %d", stored, before, after)
		}
	}
}
