package limits

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const localLayout = "2006-01-02T15:04"

var (
	dayNames = []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun"}
	whenKeys = []string{"from", "until", "days", "times"}

	errWantTimes = errors.New(`"HH:MM-HH:MM" such as "09:00-18:00", or "22:00-02:00" over midnight`)
)

// gatherSchedules takes the tables [schedule.LIMIT.NAME] out of [schedule.LIMIT].
func (p *parser) gatherSchedules(all *table) {
	for _, name := range slices.Sorted(maps.Keys(all.values)) {
		title := all.title + "." + quoteKey(name)
		t, ok := all.sub(name, fmt.Sprintf("a table for each name: [%s.NAME]", all.title), title)
		switch {
		case !ok:
		case !goodName(name):
			t.complain("a name of other bytes or length, want 1 to 64 of A-Z a-z 0-9 _ -")
		default:
			p.schedules = append(p.schedules, t)
		}
	}
}

// readSchedules gives the limits their schedules.
func (p *parser) readSchedules() {
	first := map[string]*table{}
	tables := map[*draft][]*table{} // of the schedules of a limit, in the same order
	for _, t := range p.schedules {
		d := t.draft()
		s := t.schedule(d)
		if other := first[t.title]; other != nil {
			t.duplicate(other)
			continue
		}
		first[t.title] = t
		if s != nil {
			d.schedules, tables[d] = append(d.schedules, s), append(tables[d], t)
		}
	}
	for d, of := range tables {
		p.readClashes(d.schedules, of)
		slices.SortFunc(d.schedules, func(a, b *schedule) int { return cmp.Compare(a.name, b.name) })
	}
}

// readClashes reports the schedules of a limit that hold at the same time as another, and those that
// never do.
func (p *parser) readClashes(schedules []*schedule, tables []*table) {
	found, ever := clashes(schedules)
	for _, c := range found {
		a, b := tables[c.a], tables[c.b]
		line := a.file.line(a.path)
		if a.file == b.file && line > b.file.line(b.path) { // the later one is to blame
			a, b, c.b, line = b, a, c.a, b.file.line(b.path)
		}
		b.complain("it counts on %s, when %s of %s:%d does too, want one at a time: which of two would be a guess",
			schedules[c.b].zone.show(c.atUS), a.title, a.file.name, line)
	}
	for i, t := range tables {
		if !ever[i] {
			t.complain("no such day and time lies between from and until, want one that does")
		}
	}
}

// schedule reads a schedule. Nil: something in it is wrong, or in its limit.
func (t *table) schedule(d *draft) *schedule {
	problems := len(t.p.problems)
	t.known(append([]string{"rate", "burst", "initial", "zone"}, whenKeys...)...)
	if t.has("initial") {
		t.wrong("initial", "none: that of the limit counts for its schedules too")
	}
	s := &schedule{name: t.path[2], fromUS: -never, untilUS: never, rate: t.otherNumbers(d), zone: t.zone()}
	if !slices.ContainsFunc(whenKeys, t.has) && !slices.ContainsFunc(t.meant, isWhenKey) {
		t.complain("from, until, days and times are absent, want one of them at least")
	}
	fromUS, hasFrom := t.localTime("from")
	untilUS, hasUntil := t.localTime("until")
	days := listOf(t, "days", `a day such as "mon"`, readDay)
	times := listOf(t, "times", errWantTimes.Error(), readTimes)
	if len(t.p.problems) > problems || s.rate == nil {
		return nil
	}
	if hasFrom {
		s.fromUS = s.zone.beginUS(fromUS)
	}
	if hasUntil {
		s.untilUS = s.zone.endUS(untilUS)
	}
	switch {
	case s.fromUS < s.untilUS:
	case fromUS < untilUS:
		t.wrong("until", "a later time: clocks are put forward over all of it")
		return nil
	default:
		t.wrong("until", "a time after from")
		return nil
	}
	if days == nil {
		days = []int{0, 1, 2, 3, 4, 5, 6}
	}
	if times == nil {
		times = []stretch{{0, dayUS}}
	}
	s.week = newWeek(days, times)
	return s
}

func isWhenKey(key string) bool { return slices.Contains(whenKeys, key) }

// zone reads the zone that the times are of; nil: it is wrong.
func (t *table) zone() *zone {
	const want = `an IANA name such as "Europe/Berlin"`
	if t.absent("zone") {
		t.complain("zone is absent, want %s: whose times are meant", want)
	}
	name, ok := t.text("zone", want)
	if !ok {
		return nil
	}
	z := findZone(name)
	if z == nil {
		if near := nearestZone(name); near != "" {
			t.wrong("zone", "%s; did you mean %s?", want, near)
		} else {
			t.wrong("zone", want)
		}
	}
	return z
}

// localTime reads from or until, in microseconds as clocks count them.
func (t *table) localTime(key string) (us int64, ok bool) {
	want := fmt.Sprintf(`a text such as "2026-11-27T00:00", of the years %d to %d`, firstYear, lastYear)
	s, ok := t.text(key, "%s", want)
	if !ok {
		return 0, false
	}
	at, err := time.Parse(localLayout, s)
	if err != nil || len(s) != len(localLayout) || at.Year() < firstYear || at.Year() > lastYear {
		t.wrong(key, "%s", want)
		return 0, false
	}
	return at.UnixMicro(), true
}

// readDay is 0 for Monday.
func readDay(s string) (int, error) {
	if day := slices.Index(dayNames, s); day >= 0 {
		return day, nil
	}
	return 0, errors.New(oneOf(s, dayNames))
}

// readTimes reads "09:00-18:00". The end may be that of the day, "24:00", or lie in the next.
func readTimes(text string) (stretch, error) {
	from, until, ok := strings.Cut(text, "-")
	fromUS, ok1 := timeOfDay(from)
	untilUS, ok2 := timeOfDay(until)
	switch {
	case !ok || !ok1 || !ok2 || fromUS == dayUS:
		return stretch{}, errWantTimes
	case untilUS == fromUS:
		return stretch{}, errors.New(`an end that is not the begin; "00:00-24:00" is a whole day`)
	case untilUS < fromUS:
		untilUS += dayUS
	}
	return stretch{fromUS, untilUS}, nil
}

// timeOfDay reads "00:00" to "24:00".
func timeOfDay(s string) (us int64, ok bool) {
	hours, minutes, _ := strings.Cut(s, ":")
	h, ok1 := digits(hours)
	m, ok2 := digits(minutes)
	us = (h*60 + m) * minuteUS
	return us, ok1 && ok2 && len(hours) == 2 && len(minutes) == 2 && m < 60 && us <= dayUS
}
