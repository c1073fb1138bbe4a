package limits

import (
	"cmp"
	"slices"
	"time"
)

const (
	minuteUS = 60 * 1000000
	dayUS    = 24 * 60 * minuteUS
	weekUS   = 7 * dayUS

	mondayUS = 4 * dayUS // 1970 began on a Thursday

	never = 1 << 62 // an instant that nobody lives to see
)

// A schedule is when a limit has other numbers: all that was written of it must hold.
type schedule struct {
	name            string
	fromUS, untilUS int64     // microseconds since 1970; -never and never: not written
	week            []stretch // of local time, in order, none touches the next; nil: the whole week
	zone            *zone
	rate            *Rate
}

// A stretch is a part of a week, in microseconds since Monday began.
type stretch struct{ fromUS, untilUS int64 }

// newWeek is the stretches that begin on these days (0 is Monday), at these times of day. One that goes over
// midnight belongs to the day that it begins on.
func newWeek(days []int, times []stretch) []stretch {
	var all []stretch
	for _, day := range days {
		for _, t := range times {
			s := stretch{int64(day)*dayUS + t.fromUS, int64(day)*dayUS + t.untilUS}
			if s.untilUS > weekUS {
				all = append(all, stretch{0, s.untilUS - weekUS})
				s.untilUS = weekUS
			}
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.fromUS, b.fromUS) })
	week := all[:1]
	for _, s := range all[1:] {
		if last := &week[len(week)-1]; s.fromUS <= last.untilUS {
			last.untilUS = max(last.untilUS, s.untilUS)
		} else {
			week = append(week, s)
		}
	}
	if week[0] == (stretch{0, weekUS}) {
		return nil
	}
	return week
}

// modulo is what a/b, rounded down, leaves.
func modulo(a, b int64) int64 { return (a%b + b) % b }

// holds says whether the schedule's numbers count.
func (s *schedule) holds(nowUS int64) bool {
	if nowUS < s.fromUS || nowUS >= s.untilUS {
		return false
	}
	if s.week == nil {
		return true
	}
	fromUS, toUS := s.zone.local(nowUS)
	atUS := modulo(fromUS-mondayUS, weekUS)
	toUS += atUS - fromUS
	for _, w := range s.week {
		if w.fromUS <= toUS && w.untilUS > atUS || w.fromUS <= toUS-weekUS {
			return true
		}
	}
	return false
}

// settledUS is an instant, after nowUS, before which holds does not change. At it holds may still be the same.
func (s *schedule) settledUS(nowUS int64) int64 {
	switch {
	case nowUS < s.fromUS:
		return s.fromUS
	case nowUS >= s.untilUS:
		return never
	case s.week == nil:
		return s.untilUS
	}
	untilUS, n := s.untilUS, s.zone.changes(nowUS)
	if n < len(s.zone.atUS) {
		untilUS = min(untilUS, s.zone.atUS[n])
	}
	atUS := nowUS + s.zone.offsetUS[n] - mondayUS
	for _, w := range s.week {
		untilUS = min(untilUS, nowUS+weekUS-modulo(atUS-w.fromUS, weekUS), nowUS+weekUS-modulo(atUS-w.untilUS, weekUS))
	}
	return untilUS
}

// A period is a time in which a limit's own numbers stay the same.
type period struct {
	fromUS, untilUS int64 // microseconds since 1970
	rate            *Rate
	schedule        string // whose numbers they are; "": the limit's
}

// periodAt is the period from nowUS on.
func (l *Limit) periodAt(nowUS int64) period {
	p := period{nowUS, never, &l.Rate, ""}
	for _, s := range l.schedules {
		p.untilUS = min(p.untilUS, s.settledUS(nowUS))
		if s.holds(nowUS) {
			p.rate, p.schedule = s.rate, s.name
		}
	}
	return p
}

// InForce is the limit's own numbers at a time, in microseconds since 1970, and the name of the schedule
// that they are of; "" for what the limit itself wrote. An override of a key has its own.
func (l *Limit) InForce(nowUS int64) (rate *Rate, schedule string) {
	p := l.periodAt(nowUS)
	return p.rate, p.schedule
}

// SwitchUS is when a schedule first gives the limit other numbers than those in force at fromUS: an instant after
// that and before untilUS, all in microseconds since 1970. 0: not in that time.
func (l *Limit) SwitchUS(fromUS, untilUS int64) int64 {
	p := l.periodAt(fromUS)
	for next := p; next.untilUS < untilUS; {
		if next = l.periodAt(next.untilUS); next.rate != p.rate {
			return next.fromUS
		}
	}
	return 0
}

// A clash is two schedules, by their places, that hold at one time.
type clash struct {
	a, b int
	atUS int64
}

// clashes finds for each schedule the first of those before it that holds together with it, and says which
// of them hold at all.
func clashes(all []*schedule) (found []clash, ever []bool) {
	ever = make([]bool, len(all))
	clashed := make([]bool, len(all))
	look := func(fromUS, untilUS int64) {
		for nowUS := fromUS; nowUS < untilUS; {
			holding, nextUS := -1, int64(never)
			for i, s := range all {
				nextUS = min(nextUS, s.settledUS(nowUS))
				switch {
				case !s.holds(nowUS):
					continue
				case holding < 0:
					holding = i
				case !clashed[i]:
					clashed[i] = true
					found = append(found, clash{holding, i, nowUS})
				}
				ever[i] = true
			}
			nowUS = nextUS
		}
	}
	// Between these instants each week is like the one before, but for clocks that are put back at the begin
	// or the end: two weeks show all.
	newYearUS := func(year int) int64 { return time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() }
	edges := []int64{newYearUS(firstYear), newYearUS(lastYear + 1)}
	for _, s := range all {
		for _, us := range append(slices.Clip(s.zone.atUS), s.fromUS, s.untilUS) {
			if -never < us && us < never {
				edges = append(edges, us)
			}
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for i, fromUS := range edges[:len(edges)-1] {
		untilUS := edges[i+1]
		look(fromUS, min(fromUS+weekUS, untilUS))
		look(max(fromUS+weekUS, untilUS-weekUS), untilUS)
	}
	return found, ever
}
