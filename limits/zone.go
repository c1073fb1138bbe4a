package limits

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:generate go run zones.go

// zoneTable is all time zones. The machine's own are never asked, so that the same limits file has the same
// JSON, and the same numbers at the same instant, on all of them.
//
//go:embed zones.txt
var zoneTable string

// The years of zoneTable. Before and after, a zone keeps the offset that it has at that end of them.
const (
	firstYear = 2024
	lastYear  = 2060
)

// A zone says what clocks show: UTC and an offset, which changes. Local times are microseconds too, counted
// from 1970 as clocks show it.
type zone struct {
	name     string
	atUS     []int64 // of each change, microseconds since 1970
	offsetUS []int64 // before the first change, and from each on
}

// zoneLines is the lines of zoneTable, cut into their names and the rest.
func zoneLines(yield func(names, clocks string) bool) {
	for line := range strings.Lines(zoneTable) {
		names, clocks, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if ok && line[0] != '#' && !yield(names, clocks) {
			return
		}
	}
}

// findZone is the zone of an IANA name, or nil.
func findZone(name string) *zone {
	for names, clocks := range zoneLines {
		if slices.Contains(strings.Fields(names), name) {
			return readZone(name, clocks)
		}
	}
	return nil
}

// readZone reads "60 2024-03-31T01:00=120 ...".
func readZone(name, clocks string) *zone {
	offset := func(text string) int64 {
		minutes, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			panic("BUG: zones.txt: " + err.Error())
		}
		return minutes * minuteUS
	}
	first, changes, _ := strings.Cut(clocks, " ")
	z := &zone{name: name, offsetUS: []int64{offset(first)}}
	for _, change := range strings.Fields(changes) {
		at, minutes, _ := strings.Cut(change, "=")
		t, err := time.Parse(localLayout, at)
		if err != nil {
			panic("BUG: zones.txt: " + err.Error())
		}
		z.atUS = append(z.atUS, t.UnixMicro())
		z.offsetUS = append(z.offsetUS, offset(minutes))
	}
	return z
}

// nearestZone is the name that was probably meant, or "". Many know of a name its city alone.
func nearestZone(got string) string {
	var names, cities []string
	for line := range zoneLines {
		for _, name := range strings.Fields(line) {
			names = append(names, name)
			cities = append(cities, name[strings.LastIndexByte(name, '/')+1:])
		}
	}
	if near := nearest(got, names); near != "" && strings.Contains(got, "/") {
		return near
	}
	if near := nearest(got, cities); near != "" {
		return names[slices.Index(cities, near)]
	}
	return ""
}

// changes is how many changes there have been.
func (z *zone) changes(nowUS int64) int {
	n, found := slices.BinarySearch(z.atUS, nowUS)
	if found {
		n++
	}
	return n
}

// local is what counts as the local time: one, but while clocks are put back, and show times that are there
// twice, all that they have shown or will show of these. So what begins at such a time begins at the first,
// and what ends at one ends at the last. Clocks that are put forward show no time of those that they
// leave out: what begins or ends at one does so when they jump.
func (z *zone) local(nowUS int64) (fromUS, toUS int64) {
	n := z.changes(nowUS)
	fromUS = nowUS + z.offsetUS[n]
	toUS = fromUS
	if n > 0 {
		toUS = max(toUS, z.atUS[n-1]+z.offsetUS[n-1]-1)
	}
	if n < len(z.atUS) {
		fromUS = min(fromUS, z.atUS[n]+z.offsetUS[n+1])
	}
	return fromUS, toUS
}

// beginUS is the first instant at which clocks show the local time or a later one.
func (z *zone) beginUS(localUS int64) int64 {
	for n, atUS := range z.atUS {
		if us := localUS - z.offsetUS[n]; us < atUS {
			return us
		} else if localUS-z.offsetUS[n+1] < atUS {
			return atUS // it is left out
		}
	}
	return localUS - z.offsetUS[len(z.atUS)]
}

// endUS is the first instant from which on clocks show no time before the local one.
func (z *zone) endUS(localUS int64) int64 {
	for n, atUS := range slices.Backward(z.atUS) {
		if us := localUS - z.offsetUS[n+1]; us > atUS {
			return us
		} else if localUS-z.offsetUS[n] >= atUS {
			return atUS // it is left out, or the last that is shown twice begins there
		}
	}
	return localUS - z.offsetUS[0]
}

// show writes an instant as clocks show it.
func (z *zone) show(nowUS int64) string {
	offset := time.Duration(z.offsetUS[z.changes(nowUS)]) * time.Microsecond
	return time.UnixMicro(nowUS).In(time.FixedZone("", int(offset/time.Second))).Format("Mon " + localLayout + "-07:00")
}
