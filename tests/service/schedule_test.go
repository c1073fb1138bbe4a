package service

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// saleLimits has a limit of each algorithm that admits 5, and 8 on 27 November. The windows of seven hours
// do not begin at midnight.
func saleLimits() string {
	text := "[defaults]\nhold_max = \"900ms\"\n"
	for _, algorithm := range rig.Algorithms {
		rate, sale := `"5/7h"`, `"8/7h"`
		if algorithm == "leaky_bucket" { // which holds nothing for hours
			rate, sale = "\"5/s\"\nburst = 4", "\"8/s\"\nburst = 7"
		}
		text += fmt.Sprintf(`
			[limit.%[1]s]
			match     = { path = "/%[1]s" }
			key       = ["ip"]
			algorithm = "%[1]s"
			rate      = %[2]s
			[schedule.%[1]s.sale]
			rate      = %[3]s
			from      = "2026-11-27T00:00"
			until     = "2026-11-28T00:00"
			zone      = "UTC"`, algorithm, rate, sale)
	}
	return text
}

// What was used stays used: of 8 there are 3 left for whoever has used 5, and of 5 none for whoever has
// used 8; and a change of day is no new window.
func TestASwitchOfNumbersIsAnEdit(t *testing.T) {
	set := rig.Compile(t, saleLimits())
	begin, end := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC).UnixMicro()
	for _, b := range rig.Bodies {
		if b.Name == "cluster" {
			continue // its scripts are those of redis
		}
		t.Run(b.Name, func(t *testing.T) {
			take := b.Start(t)(t)
			for _, algorithm := range rig.Algorithms {
				var m limits.Match
				ask := func(nowUS int64, ip string) store.Result {
					t.Helper()
					addr, _ := limits.ParseAddr([]byte(ip))
					set.Match(&limits.Attrs{Path: []byte("/" + algorithm), IP: addr, NowUS: nowUS}, &m)
					return take(t, nowUS, m.Checks, false)[0]
				}
				admitted := func(nowUS int64, ip string) (n int) {
					t.Helper()
					for ask(nowUS, ip).Allowed {
						n++
					}
					return n
				}
				got := fmt.Sprint(algorithm, " ", admitted(begin-1, "192.0.2.1"), admitted(begin, "192.0.2.1"),
					" ", admitted(end-1, "192.0.2.2"), admitted(end, "192.0.2.2"), " left ", ask(end, "192.0.2.2").Remaining)
				rig.Same(t, got, algorithm+" 5 3 8 0 left 0")
			}
		})
	}
}

// nowLimits has numbers that count now, and until 2060, and others that counted once.
const nowLimits = `
	[limit.now]
	match     = { path = "/now" }
	key       = []
	algorithm = "fixed_window"
	rate      = "5/d"
	[schedule.now.from]
	rate      = "8/d"
	from      = "2024-01-01T00:00"
	until     = "2060-12-31T00:00"
	zone      = "Europe/Berlin"
	[limit.once]
	match     = { path = "/once" }
	key       = []
	algorithm = "fixed_window"
	rate      = "5/d"
	[schedule.once.until]
	rate      = "8/d"
	until     = "2024-06-01T00:00"
	days      = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
	times     = ["00:00-13:00", "12:00-23:59"]
	zone      = "Europe/Berlin"
	[limit.always]
	match     = { path = "/always" }
	key       = []
	algorithm = "fixed_window"
	rate      = "5/d"
	[schedule.always.am]
	rate      = "9/d"
	times     = ["00:00-12:00"]
	zone      = "America/New_York"
	[schedule.always.pm]
	rate      = "9/d"
	times     = ["12:00-24:00"]
	zone      = "America/New_York"`

func TestTheServiceAndThePackCountByTheNumbersOfNow(t *testing.T) {
	service := rig.StartSite(t, rig.SiteConf{Limits: nowLimits, Server: rig.ClosedServer + "include authz/authz_ratelimit.conf;"})
	pack := rig.StartPack(t, nil, "admitted_headers = true", rig.SiteConf{Limits: nowLimits})
	for name, s := range map[string]*rig.Site{"service": service, "pack": pack} {
		for path, quota := range map[string]int{"now": 8, "once": 5, "always": 9} {
			rig.Same(t, name+" "+s.Send(t, "GET /"+path, "").Header.Get("RateLimit-Policy"), fmt.Sprintf(`%s "%s";q=%d;w=86400`, name, path, quota))
		}
	}
}

// In the pack, too, a refusal is remembered for as long as the numbers that refused are in force.
func TestASwitchEndsARefusalThatThePackRemembers(t *testing.T) {
	r := rig.StartRedis(t)
	shim, file := rig.BuildClock(t)
	at := func(text string) {
		t.Helper()
		then, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		rig.ReplaceFile(t, file, fmt.Sprint(time.Until(then).Microseconds()))
	}
	t.Setenv("LD_PRELOAD", shim)
	t.Setenv("CLOCK_OFFSET_US", file)
	at("2026-11-26T12:00:00Z")
	s := rig.StartPack(t, r, "refusal_cache = true", rig.SiteConf{Limits: `
		[limit.day]
		key       = ["header:X-Who"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "5/366d"
		[schedule.day.sale]
		rate      = "8/366d"
		from      = "2026-11-27T00:00"
		until     = "2026-11-28T00:00"
		zone      = "UTC"`})
	me := func(want string) {
		t.Helper()
		asked := s.Asked(t)
		rig.Same(t, s.SendAll(t, strings.Count(want, " ")+1, "GET /", "X-Who: me"), want)
		if s.Asked(t) == asked {
			t.Error("what was remembered by numbers of another time answers")
		}
		s.AwaitCached(t, "GET /", "X-Who: me")
	}
	// A clock that jumps makes the cache wait until it has read the epoch again.
	await := func(who string) {
		t.Helper()
		for s.SendAll(t, 1, "GET /", "X-Who: "+who) == "200" {
		}
		s.AwaitCached(t, "GET /", "X-Who: "+who)
	}
	await("first")
	me("200 200 200 200 200 429")
	at("2026-11-27T12:00:00Z")
	await("second")
	me("200 200 200 429")
	at("2026-11-28T12:00:00Z") // the numbers of before: nothing is known of them
	await("third")
	me("429")
}
