package limits

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func utc(t testing.TB, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

func TestEveryZoneIsThereOnceAndInOrder(t *testing.T) {
	seen := map[string]bool{}
	for names := range zoneLines {
		for _, name := range strings.Fields(names) {
			z := findZone(name)
			if seen[name] || z == nil || z.name != name || !slices.IsSorted(z.atUS) || len(z.offsetUS) != len(z.atUS)+1 {
				t.Errorf("%s: %+v, want it once, with its changes in order", name, z)
			}
			seen[name] = true
			for i, us := range z.offsetUS {
				if us%(minuteUS*15) != 0 || us < -12*60*minuteUS || us > 14*60*minuteUS || i > 0 && us == z.offsetUS[i-1] {
					t.Errorf("%s: %d us east of UTC, want another than before, of whole quarters of an hour", name, us)
				}
			}
		}
	}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Chatham"} {
		if !seen[name] {
			t.Errorf("there is no %s", name)
		}
	}
	for _, name := range []string{"", "Local", "europe/berlin", "Europe/Berlin ", "#", "60"} {
		if z := findZone(name); z != nil {
			t.Errorf("%q is %s, want no zone", name, z.name)
		}
	}
}

// Clocks in Berlin show no 2:30 on 29 March 2026, and two on 25 October.
func TestALocalTimeBeginsAtTheFirstAndEndsAtTheLastInstantThatShowsIt(t *testing.T) {
	z := findZone("Europe/Berlin")
	is := func(local, begin, end string) {
		t.Helper()
		us := utc(t, local+"Z")
		show := func(us int64) string { return time.UnixMicro(us).UTC().Format("01-02T15:04:05.999999") }
		if got := [2]string{show(z.beginUS(us)), show(z.endUS(us))}; got != [2]string{begin, end} {
			t.Errorf("%s begins and ends at %v UTC, want %s, %s", local, got, begin, end)
		}
	}
	is("2026-01-01T00:00:00", "12-31T23:00:00", "12-31T23:00:00")
	is("2026-07-01T00:00:00", "06-30T22:00:00", "06-30T22:00:00")
	is("2026-03-29T01:59:59.999999", "03-29T00:59:59.999999", "03-29T00:59:59.999999")
	is("2026-03-29T02:00:00", "03-29T01:00:00", "03-29T01:00:00")
	is("2026-03-29T02:30:00", "03-29T01:00:00", "03-29T01:00:00")
	is("2026-03-29T03:00:00", "03-29T01:00:00", "03-29T01:00:00")
	is("2026-03-29T03:00:00.000001", "03-29T01:00:00.000001", "03-29T01:00:00.000001")
	is("2026-10-25T01:59:59.999999", "10-24T23:59:59.999999", "10-24T23:59:59.999999")
	is("2026-10-25T02:00:00", "10-25T00:00:00", "10-25T00:00:00")
	is("2026-10-25T02:00:00.000001", "10-25T00:00:00.000001", "10-25T01:00:00.000001")
	is("2026-10-25T02:30:00", "10-25T00:30:00", "10-25T01:30:00")
	is("2026-10-25T02:59:59.999999", "10-25T00:59:59.999999", "10-25T01:59:59.999999")
	is("2026-10-25T03:00:00", "10-25T02:00:00", "10-25T02:00:00")
	// No change is known before and after the years of the table.
	is("2023-07-01T00:00:00", "06-30T23:00:00", "06-30T23:00:00")
	is("2061-07-01T00:00:00", "06-30T23:00:00", "06-30T23:00:00")
}
