package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

// A clientsDoing is how far clients could be the cause of what comes of a fault, by what they send or by being
// many, so that a limit of "allow" may act as "local".
type clientsDoing int

const (
	nobodys       clientsDoing = iota // whoever waits in vain does so for Redis
	perhapsTheirs                     // Redis answers, whatever it says: whoever waits in vain may be one of a crowd
	theirs
)

// byDoor is the answers through each door, in the order in which they ended.
func (s *soak) byDoor() [][]soakAnswer {
	doors := make([][]soakAnswer, len(s.Doors))
	for _, a := range s.answers {
		doors[a.door] = append(doors[a.door], a)
	}
	for _, answers := range doors {
		slices.SortFunc(answers, func(a, b soakAnswer) int { return a.to.Compare(b.to) })
	}
	return doors
}

// mayBeLocal says what was wrong with Redis if no client can be the cause of the answer i of a door; "" if one
// can. What one has caused lasts until Redis decides again: a breaker that is open says why it was opened.
func (s *soak) mayBeLocal(answers []soakAnswer, i int) (why string) {
	a, crowd, decided := answers[i], false, time.Time{} // the latest request that Redis has decided began then
	for i < len(answers)-1 && answers[i+1].to.Sub(a.to) < 4*soakTimeout {
		i++ // who saw it a little later may have been told before
	}
	for ; i >= 0 && !answers[i].to.Before(decided); i-- {
		switch b := answers[i]; {
		case b.byRedis():
			if b.to.Before(a.from) && b.from.After(decided) {
				decided = b.from
			}
		case b.waitedInVain() && b.from.Add(soakTimeout).Before(a.to) && s.faultAt(b.door, b.span, nobodys) == "":
			crowd = true
		}
	}
	switch fault := s.faultAt(a.door, a.span, nobodys) + s.faultAt(a.door, a.span, perhapsTheirs); {
	case crowd || s.faultAt(a.door, span{decided, a.to}, theirs) != "" || a.late() && !s.silentAround(a):
		return ""
	case fault != "":
		return "with " + fault
	}
	return "with no fault"
}

// faultAt is a fault of this sort that a door may have met in some time, or "".
func (s *soak) faultAt(door int, when span, doing clientsDoing) string {
	for _, f := range s.faults {
		if f.byClients == doing && !f.well.Before(when.from) && !when.to.Before(f.from) && (!f.oneWay || f.door == door) {
			return f.name
		}
	}
	return ""
}

// silentAround says whether an answer was awaited while nobody was answered, from its beginning to its end.
func (s *soak) silentAround(a soakAnswer) bool {
	return slices.ContainsFunc(s.faults, func(f soakSuffering) bool {
		return f.byClients == nobodys && f.from.Before(a.from) && a.to.Before(f.to) && (!f.oneWay || f.door == a.door)
	})
}

func (a *soakAnswer) late() bool { return a.to.Sub(a.from) >= soakTimeout }

// byRedis: it was decided by Redis for sure. A refusal may be a remembered one.
func (a *soakAnswer) byRedis() bool {
	return a.status == "200" && a.degraded == "" && a.limit != "free" && a.limit != "forbidden"
}

// waitedInVain: not for a leaky bucket.
func (a *soakAnswer) waitedInVain() bool {
	return a.degraded != "" && a.late() && !strings.HasPrefix(a.limit, "leaky")
}

// By what clients could have caused, a limit of "allow" acts as "local", and by nothing else.
func TestTheSoakKnowsWhatClientsCanCause(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(ms)) }
	s := &soak{set: map[string]*limits.Limit{"a-allow": nil}}
	s.Doors = []*rig.Door{{Name: "service"}, {Name: "service"}, {Name: "pack"}}
	for i, name := range []string{"out of memory", "refused port", "latency around the timeout", "busy"} {
		f := soakFaults[slices.IndexFunc(soakFaults, func(f soakFault) bool { return f.name == name })]
		s.faults = append(s.faults, soakSuffering{f, span{at(1000 * i), at(1000*i + 500)}, 1, at(1000*i + 600)})
	}
	check := func(door int, want string, answers ...soakAnswer) {
		t.Helper()
		s.answers = answers
		for i := range answers {
			s.answers[i].door, s.answers[i].limit, s.answers[i].status = door, "a-allow", "200"
		}
		rig.Same(t, fmt.Sprint(s.wrong()), "map["+want+"]")
	}
	took := func(ms, began int, degraded string) soakAnswer {
		return soakAnswer{span: span{at(began), at(began + ms)}, degraded: degraded}
	}
	local := func(began int) soakAnswer { return took(1, began, "local") }
	redis := func(began int) soakAnswer { return took(1, began, "") }
	wrong := func(door int, why string) string {
		return "200 local of a-allow through the " + s.Doors[door].Name + ", with " + why + ":1"
	}
	for door := range s.Doors {
		check(door, "", redis(-1), took(1, 100, "allow"))
		check(door, "", redis(-1), local(100))                                   // out of memory
		check(door, "", redis(-1), local(599))                                   // not well yet
		check(door, "", redis(550), local(560), local(620))                      // nor for this door
		check(door, wrong(door, "no fault"), local(599), redis(620), local(700)) // but now
		check(door, "", redis(620), took(50, 700, "local"))                      // unless the machine is too busy
		check(door, wrong(door, "busy"), redis(2700), local(3100))               // Redis said so
		check(door, "", redis(2700), took(50, 3040, "allow"), local(3100))       // and too late for some
		check(door, wrong(door, "busy"), took(50, 3030, "allow"), redis(3090), local(3100))
	}
	check(1, wrong(1, "refused port"), redis(700), local(1100))
	check(1, wrong(1, "refused port"), redis(700), took(50, 1040, "allow"), local(1100)) // which nobody answers
	check(1, wrong(1, "refused port"), redis(700), took(50, 1100, "local"))
	check(1, "", redis(700), took(50, 940, "allow"), local(1100)) // but somebody did before
	check(1, "", redis(700), took(50, 970, "local"))              // or at its beginning
	check(0, wrong(0, "no fault"), redis(700), local(1100))
	check(1, "", redis(700), local(2100)) // a crowd before a way that is slow
	check(0, wrong(0, "no fault"), redis(700), local(2100))
	check(0, "200 deny of a-allow:1", took(1, 100, "deny"))
}
