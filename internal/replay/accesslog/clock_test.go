package accesslog

import (
	"testing"
	"time"
)

func TestATimeIsReadInEveryForm(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		got := "none"
		if us, ok := readTime([]byte(text)); ok {
			got = time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.000000")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	// $time_local: names of months, zones
	check("10/Oct/2026:13:55:36 +0000", "2026-10-10T13:55:36.000000")
	check("[10/Oct/2026:13:55:36 -0700]", "2026-10-10T20:55:36.000000")
	check("01/Mar/2024:00:30:00 +0545", "2024-02-29T18:45:00.000000")
	check("31/Dec/2026:23:59:60 +0000", "2027-01-01T00:00:00.000000") // a leap second
	check("29/Feb/2026:00:00:00 +0000", "none")
	check("10/Okt/2026:13:55:36 +0000", "none")
	check("10/Oct/2026:24:00:00 +0000", "none")
	check("10/Oct/2026:13:55:36", "none")
	check("10/Oct/2026:13:55:36 +9900", "none")
	// $time_iso8601, and what others write like it
	check("2026-10-10T13:55:36+02:00", "2026-10-10T11:55:36.000000")
	check("2026-10-10T13:55:36Z", "2026-10-10T13:55:36.000000")
	check("2026-10-10 13:55:36,123", "2026-10-10T13:55:36.123000")
	check("2026-10-10T13:55:36.123456789-0700", "2026-10-10T20:55:36.123456")
	check("2026-10-10", "none")
	check("2026-13-10T13:55:36Z", "none")
	check("2026-10-10T13:55:36+2", "none")
	// $msec, and numbers of other units
	check("1791640536.123", "2026-10-10T13:55:36.123000")
	check("1791640536", "2026-10-10T13:55:36.000000")
	check("1791640536.1234567", "2026-10-10T13:55:36.123456")
	check("1791640536123", "2026-10-10T13:55:36.123000")
	check("1791640536123456", "2026-10-10T13:55:36.123456")
	check("1791640536123456789", "2026-10-10T13:55:36.123456")
	check("9999999999999999999", "none")
	check("-1", "none")
	check("0", "none")
	check("1.x", "none")
	check("", "none")
	check("-", "none")
}
