package openresty

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

var diceTimeZones = []string{"Europe/Berlin", "America/New_York", "UTC", "Asia/Kolkata", "Australia/Lord_Howe", "Antarctica/Troll",
	"Africa/Casablanca", "Pacific/Chatham", "America/Asuncion", "Asia/Gaza"}

// scheduleOf throws a schedule, "" if the limits with it do not load: it meets another, or never holds.
func (r dice) scheduleOf(t testing.TB, before, limit, name string) string {
	t.Helper()
	text := fmt.Sprintf("[schedule.%s.%s]\nrate = \"%d/%s\"\nzone = %q\n", limit, name, 1+r.IntN(99), r.one("s", "m", "7h"), r.one(diceTimeZones...))
	local := func(most int) string {
		return time.Date(2024, 1, 1, 0, r.IntN(4)*15, 0, 0, time.UTC).Add(time.Duration(r.IntN(most)) * time.Hour).Format("2006-01-02T15:04")
	}
	kinds := r.IntN(8)
	if kinds&1 > 0 {
		text += fmt.Sprintf("from = %q\n", local(12*365*24))
	}
	if kinds&2 > 0 {
		text += fmt.Sprintf("until = %q\n", local(36*365*24))
	}
	if kinds&4 > 0 || kinds == 0 {
		text += "days = " + quoteAll(r.some(5, []string{"mon", "tue", "wed", "thu", "fri", "sat", "sun", "sun"})) + "\n"
	}
	if r.in(2) {
		var times []string
		for range 1 + r.IntN(3) {
			h := r.IntN(24)
			times = append(times, fmt.Sprintf("%02d:%02d-%02d:15", h, r.IntN(2)*30, (h+r.IntN(5))%24))
		}
		text += "times = " + quoteAll(times) + "\n"
	}
	path := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(path, []byte(before+text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := limits.Load("authz", path); err != nil {
		return ""
	}
	return text
}

// diceChanges are times at which clocks of diceTimeZones are put back, and forward.
var diceChanges = []string{"2026-10-25T01:00", "2026-11-01T06:00", "2026-04-04T15:00", "2026-02-15T02:00", "2026-04-04T14:00", "2026-10-23T23:00",
	"2026-03-29T01:00", "2026-03-08T07:00", "2026-10-03T15:30"}

// at throws a time of the years 2023 to 2062, most often close to a quarter of an hour, and within hours of
// one at which clocks change.
func (r dice) at() string {
	at := time.Date(2023+r.IntN(40), time.Month(1+r.IntN(12)), 1+r.IntN(31), 0, r.IntN(24*4)*15, 0, 0, time.UTC)
	if r.in(2) {
		at, _ = time.Parse("2006-01-02T15:04", r.one(diceChanges...))
		at = at.Add(time.Duration(r.IntN(25)-12) * 15 * time.Minute)
	}
	switch r.IntN(4) {
	case 0:
		at = at.Add(-time.Microsecond)
	case 1:
		at = at.Add(time.Duration(r.IntN(900e6)) * time.Microsecond)
	}
	return at.Format(time.RFC3339Nano)
}

func TestTheLuaMatcherTakesTheNumbersOfRandomTimesAsGoDoes(t *testing.T) {
	const files, requestsOfEach = 12, 1000
	m := startMatcher(t)
	scheduled := 0
	for seed := range files {
		r := dice{rand.New(rand.NewPCG(9, uint64(seed)))}
		var file string
		for i := range 8 {
			text := fmt.Sprintf("[limit.l%d]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"100/s\"\nutc_offset = \"-03:30\"\n", i)
			for j := range 4 {
				text += r.scheduleOf(t, text, fmt.Sprint("l", i), fmt.Sprint("s", j))
			}
			file += text
		}
		var requests, times []string
		for range requestsOfEach {
			at := r.at()
			times = append(times, at)
			requests = append(requests, fmt.Sprintf("{\"uri\":\"/\",\"at\":%q}\n", at))
		}
		want, got := rig.Explain(t, file, strings.Join(requests, "")), m.explain(t, file, strings.Join(requests, ""))
		if len(want) != requestsOfEach || len(got) != requestsOfEach {
			t.Fatalf("%d answers of Go and %d of Lua, want %d", len(want), len(got), requestsOfEach)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("at %s Lua answers\n%swant\n%sby\n%s", times[i], got[i], want[i], file)
			}
			scheduled += 8 - strings.Count(want[i], `"limit_count":100,`)
		}
	}
	if most := files * requestsOfEach * 8; scheduled < most/20 || scheduled > most*19/20 {
		t.Errorf("of %d limits %d had the numbers of a schedule, want enough of both", most, scheduled)
	}
}

func TestAScheduleThatThePackDoesNotKnowIsRefused(t *testing.T) {
	const file = `
		[limit.a]
		key       = []
		algorithm = "fixed_window"
		rate      = "5/d"
		[schedule.a.s]
		rate  = "6/d"
		days  = ["mon"]
		zone  = "UTC"`
	good := string(rig.Compile(t, file).JSON())
	n := startPolicyNginx(t, good)
	refused := func(old, new, failure string) {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("no %s in %s", old, good)
		}
		n.replace(t, signed(strings.Replace(good, old, new, 1)))
		n.await(t, policyVersion(good), ": is from another release of authz: "+failure)
	}
	refused(`"week":`, `"month":[],"week":`, "schedule.a.s: month is unknown")
	refused(`"limit":6`, `"limit":6,"per":5`, "schedule.a.s: rate.per is unknown")
	refused(`"zone":"UTC"`, `"zone":"UTC2"`, `schedule.a.s: zone = "UTC2", want one of the set's zones`)
	refused(`"changes":[]`, `"changes":[],"leap":1`, "the set: zones.UTC.leap is unknown")
	refused(`"zones":`, `"regions":`, "the set: regions is unknown")
}
