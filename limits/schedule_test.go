package limits

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// scheduled is a limit of 5 a minute with 1000 a minute at these times.
func scheduled(t testing.TB, times ...string) *Set {
	t.Helper()
	return load(t, "[limit.a]\nkey = [\"ip\"]\nalgorithm = \"sliding_window\"\nrate = \"5/m\"\n[schedule.a.s]\nrate = \"1000/m\"\n"+
		strings.Join(times, "\n"))
}

// switching returns a closure that wants the schedule to hold from one microsecond on, until another.
func switching(t *testing.T, times ...string) func(from, until string) {
	set := scheduled(t, times...)
	return func(from, until string) {
		t.Helper()
		var got []string
		for _, us := range []int64{utc(t, from) - 1, utc(t, from), utc(t, until) - 1, utc(t, until)} {
			rate, name := set.Limits()[0].InForce(us)
			got = append(got, rate.String()+" "+name)
		}
		if want := "[5/m  1000/m s 1000/m s 5/m ]"; fmt.Sprint(got) != want {
			t.Errorf("%v: around %s and %s it is %v, want %s", times, from, until, got, want)
		}
	}
}

func TestASwitchIsTheFirstToOtherNumbers(t *testing.T) {
	check := func(from, until, want string, times ...string) {
		t.Helper()
		got := ""
		if us := scheduled(t, times...).Limits()[0].SwitchUS(utc(t, from), utc(t, until)); us != 0 {
			got = time.UnixMicro(us).UTC().Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%v: from %s to %s the first is at %q, want %q", times, from, until, got, want)
		}
	}
	sale := []string{`from = "2026-11-27T00:00"`, `until = "2026-12-01T00:00"`, `zone = "UTC"`}
	check("2026-11-26T23:59:00Z", "2026-11-27T00:00:00Z", "", sale...)
	check("2026-11-26T23:59:00Z", "2026-11-27T00:00:01Z", "2026-11-27T00:00:00Z", sale...)
	check("2026-11-27T00:00:00Z", "2026-12-02T00:00:00Z", "2026-12-01T00:00:00Z", sale...)
	check("2026-12-01T00:00:00Z", "2027-12-01T00:00:00Z", "", sale...)
	// Days that follow each other are one stretch, also where a clock is put back in it.
	days := []string{`days = ["sat", "sun", "mon"]`, `zone = "Europe/Berlin"`}
	check("2026-10-24T12:00:00Z", "2026-10-28T00:00:00Z", "2026-10-26T23:00:00Z", days...)
	check("2026-10-27T12:00:00Z", "2026-11-28T00:00:00Z", "2026-10-30T23:00:00Z", days...)
}

func TestASaleBeginsAndEndsAtItsLocalMidnights(t *testing.T) {
	is := switching(t, `from = "2026-11-27T00:00"`, `until = "2026-12-01T00:00"`, `zone = "Europe/Berlin"`)
	is("2026-11-26T23:00:00Z", "2026-11-30T23:00:00Z")
	is = switching(t, `from = "2026-11-27T00:00"`, `until = "2026-12-01T00:00"`, `zone = "Asia/Kolkata"`)
	is("2026-11-26T18:30:00Z", "2026-11-30T18:30:00Z")
	is = switching(t, `from = "2026-10-25T02:30"`, `until = "2026-10-26T00:00"`, `zone = "Europe/Berlin"`)
	is("2026-10-25T00:30:00Z", "2026-10-25T23:00:00Z")
}

func TestTimesOfDayAreThoseThatClocksShow(t *testing.T) {
	is := switching(t, `times = "09:00-18:00"`, `zone = "Europe/Berlin"`)
	is("2026-01-05T08:00:00Z", "2026-01-05T17:00:00Z")
	is("2026-07-05T07:00:00Z", "2026-07-05T16:00:00Z")
	is = switching(t, `times = ["09:00-18:00", "20:00-21:00", "17:00-18:30"]`, `days = ["mon", "fri"]`, `zone = "UTC"`)
	is("2026-01-05T09:00:00Z", "2026-01-05T18:30:00Z")
	is("2026-01-05T20:00:00Z", "2026-01-05T21:00:00Z")
	is("2026-01-09T20:00:00Z", "2026-01-09T21:00:00Z")
	is = switching(t, `days = ["sat", "sun"]`, `zone = "America/New_York"`)
	is("2026-03-07T05:00:00Z", "2026-03-09T04:00:00Z") // 47 hours: clocks jumped on Sunday
	is("2026-10-31T04:00:00Z", "2026-11-02T05:00:00Z")
}

func TestATimeOverMidnightBelongsToTheDayItBeginsOn(t *testing.T) {
	is := switching(t, `times = ["22:00-02:00"]`, `days = ["sun"]`, `zone = "UTC"`)
	is("2026-01-04T22:00:00Z", "2026-01-05T02:00:00Z")
	is = switching(t, `times = ["22:00-02:00"]`, `days = ["tue", "wed"]`, `zone = "Asia/Tokyo"`)
	is("2026-01-06T13:00:00Z", "2026-01-06T17:00:00Z")
	is("2026-01-07T13:00:00Z", "2026-01-07T17:00:00Z")
	// Dates cut it: all that is written must hold.
	is = switching(t, `times = ["22:00-02:00"]`, `from = "2026-01-06T00:00"`, `until = "2026-01-07T00:00"`, `zone = "UTC"`)
	is("2026-01-06T00:00:00Z", "2026-01-06T02:00:00Z")
	is("2026-01-06T22:00:00Z", "2026-01-07T00:00:00Z")
	is = switching(t, `times = "12:00-24:00"`, `days = "sun"`, `zone = "UTC"`)
	is("2026-01-04T12:00:00Z", "2026-01-05T00:00:00Z")
}

// On 29 March 2026 clocks in Berlin jump from 2:00 to 3:00, at 1:00 UTC.
func TestATimeThatClocksLeaveOutIsTheMomentTheyJump(t *testing.T) {
	is := switching(t, `times = "02:30-05:00"`, `zone = "Europe/Berlin"`)
	is("2026-03-28T01:30:00Z", "2026-03-28T04:00:00Z")
	is("2026-03-29T01:00:00Z", "2026-03-29T03:00:00Z")
	is("2026-03-30T00:30:00Z", "2026-03-30T03:00:00Z")
	is = switching(t, `times = "01:00-02:30"`, `zone = "Europe/Berlin"`)
	is("2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z")
	is = switching(t, `times = "01:00-04:00"`, `zone = "Europe/Berlin"`)
	is("2026-03-29T00:00:00Z", "2026-03-29T02:00:00Z")
	set := scheduled(t, `times = "02:15-02:45"`, `zone = "Europe/Berlin"`)
	for us := utc(t, "2026-03-29T00:00:00Z"); us < utc(t, "2026-03-29T03:00:00Z"); us += minuteUS / 60 {
		if _, name := set.Limits()[0].InForce(us); name != "" {
			t.Fatalf("it holds at %d, though clocks show nothing of it that day", us)
		}
	}
}

// On 25 October 2026 clocks in Berlin go from 3:00 back to 2:00, at 1:00 UTC.
func TestATimeThatClocksShowTwiceCountsBothTimes(t *testing.T) {
	is := switching(t, `times = "02:30-05:00"`, `zone = "Europe/Berlin"`)
	is("2026-10-25T00:30:00Z", "2026-10-25T04:00:00Z")
	is = switching(t, `times = "01:00-02:30"`, `zone = "Europe/Berlin"`)
	is("2026-10-24T23:00:00Z", "2026-10-25T01:30:00Z")
	is = switching(t, `times = "02:15-02:45"`, `zone = "Europe/Berlin"`)
	is("2026-10-25T00:15:00Z", "2026-10-25T01:45:00Z")
	is = switching(t, `times = "02:00-03:00"`, `zone = "Europe/Berlin"`)
	is("2026-10-25T00:00:00Z", "2026-10-25T02:00:00Z")
	is = switching(t, `times = "03:00-04:00"`, `zone = "Europe/Berlin"`)
	is("2026-10-25T02:00:00Z", "2026-10-25T03:00:00Z")
	is = switching(t, `times = "01:00-02:00"`, `zone = "Europe/Berlin"`)
	is("2026-10-24T23:00:00Z", "2026-10-25T00:00:00Z")
}

// No zone does so yet: at half past midnight on a Monday it is half past eleven on Sunday again.
func TestAWeekMayBeginTwice(t *testing.T) {
	z := &zone{atUS: []int64{utc(t, "2026-01-04T23:30:00Z")}, offsetUS: []int64{60 * minuteUS, 0}}
	is := func(day int, times stretch, from, until string) {
		t.Helper()
		s := &schedule{fromUS: -never, untilUS: never, zone: z, week: newWeek([]int{day}, []stretch{times})}
		var got []bool
		for _, us := range []int64{utc(t, from) - 1, utc(t, from), utc(t, "2026-01-04T23:29:59Z"), utc(t, "2026-01-04T23:30:00Z"), utc(t, until) - 1, utc(t, until)} {
			got = append(got, s.holds(us))
		}
		if want := "[false true true true true false]"; fmt.Sprint(got) != want {
			t.Errorf("from %s until %s: %v, want %s", from, until, got, want)
		}
	}
	is(0, stretch{0, 10 * minuteUS}, "2026-01-04T23:00:00Z", "2026-01-05T00:10:00Z")
	is(6, stretch{dayUS - 20*minuteUS, dayUS}, "2026-01-04T22:40:00Z", "2026-01-05T00:00:00Z")
	is(6, stretch{dayUS - 20*minuteUS, dayUS + 10*minuteUS}, "2026-01-04T22:40:00Z", "2026-01-05T00:10:00Z")
}

// TestAScheduleHoldsWhenTheCalendarSaysSo holds what holds says against the days and times one by one,
// each from the instant at which its begin is first shown to the one at which its end is last.
func TestAScheduleHoldsWhenTheCalendarSaysSo(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 3))
	zones := []*zone{findZone("Europe/Berlin"), findZone("America/New_York"), findZone("Australia/Lord_Howe"), findZone("Antarctica/Troll"),
		findZone("Africa/Casablanca"), findZone("Pacific/Chatham"), findZone("UTC"), findZone("America/Asuncion")}
	held := 0
	for range 2000 {
		z := zones[r.IntN(len(zones))]
		days, times := r.Perm(7)[:1+r.IntN(7)], []stretch{}
		for range 1 + r.IntN(3) {
			from := r.Int64N(24*4) * 15 * minuteUS
			times = append(times, stretch{from, from + (1+r.Int64N(24*4-1))*15*minuteUS})
		}
		s := &schedule{fromUS: -never, untilUS: never, zone: z, week: newWeek(days, times)}
		var nowUS int64
		for range 20 {
			if len(z.atUS) > 0 && r.IntN(2) == 0 { // within hours of a change
				nowUS = z.atUS[r.IntN(len(z.atUS))] + (r.Int64N(33)-16)*15*minuteUS + r.Int64N(3) - 1
			} else {
				nowUS = utc(t, "2024-01-01T00:00:00Z") + r.Int64N(37*365)*dayUS + r.Int64N(24*4)*15*minuteUS + r.Int64N(3) - 1
			}
			want := calendar(z, days, times, nowUS)
			if got := s.holds(nowUS); got != want {
				t.Fatalf("%s, days %v, times %v, at %s: %v, want %v", z.name, days, times, z.show(nowUS), got, want)
			}
			if want {
				held++
			}
			settledUS := s.settledUS(nowUS)
			if settledUS <= nowUS {
				t.Fatalf("%s, days %v, times %v: settled until %d at %d", z.name, days, times, settledUS, nowUS)
			}
			lastUS := min(settledUS, nowUS+weekUS) - 1
			for _, us := range []int64{lastUS, nowUS + r.Int64N(lastUS-nowUS+1)} {
				if s.holds(us) != want {
					t.Fatalf("%s, days %v, times %v: %v at %s, and at %s no more, want it settled until %s", z.name, days, times, want, z.show(nowUS), z.show(us), z.show(settledUS))
				}
			}
		}
	}
	if held < 4000 || held > 36000 {
		t.Errorf("%d of 40000 instants were in a schedule, want enough of both", held)
	}
}

func calendar(z *zone, days []int, times []stretch, nowUS int64) bool {
	today := time.UnixMicro(nowUS).UTC().Truncate(24 * time.Hour)
	for n := -3; n <= 2; n++ {
		day := today.AddDate(0, 0, n)
		if !slices.Contains(days, (int(day.Weekday())+6)%7) {
			continue
		}
		for _, s := range times {
			if z.beginUS(day.UnixMicro()+s.fromUS) <= nowUS && nowUS < z.endUS(day.UnixMicro()+s.untilUS) {
				return true
			}
		}
	}
	return false
}

func TestTheMatcherTakesTheNumbersOfItsTime(t *testing.T) {
	set := load(t, `
		[limit.a]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "5/m"
		burst     = 7
		[schedule.a.sale]
		rate  = "9/m"
		from  = "2026-11-27T00:00"
		until = "2026-12-01T00:00"
		zone  = "UTC"
		[schedule.a.free]
		rate  = "unlimited"
		from  = "2026-12-01T00:00"
		until = "2026-12-02T00:00"
		zone  = "UTC"
		[override.a."192.0.2.1"]
		burst = 3
		[limit.b]
		key       = []
		algorithm = "fixed_window"
		rate      = "5/m"`)
	m := new(Match)
	is := func(at, ip, want string) {
		t.Helper()
		a := newAttrs(t, set, "GET http://a/", "ip: "+ip)
		a.NowUS = utc(t, at)
		set.Match(a, m)
		got := m.show()
		for _, c := range m.Checks {
			got += fmt.Sprintf(" %d/%s", c.Rate.Burst, time.Duration(c.LeftUS)*time.Microsecond)
		}
		if got != want {
			t.Errorf("%s %s\n got %s\nwant %s", at, ip, got, want)
		}
	}
	for range 2 { // also when the clock is set back
		is("2026-11-26T23:59:59.999999Z", "192.0.2.2", "limits a{ip=192.0.2.2} b{} 7/1µs 0/0s")
		is("2026-11-27T00:00:00Z", "192.0.2.2", "limits a{ip=192.0.2.2}@9 b{} 7/96h0m0s 0/0s")
		is("2026-11-30T23:59:59.999999Z", "192.0.2.2", "limits a{ip=192.0.2.2}@9 b{} 7/1µs 0/0s")
		is("2026-12-01T00:00:00Z", "192.0.2.2", "limits b{} unlimited:a 0/0s")
		is("2026-11-29T00:00:00Z", "192.0.2.1", "limits a{ip=192.0.2.1}@5 b{} 3/0s 0/0s") // an override has its own
		is("2026-12-01T00:00:00Z", "192.0.2.1", "limits a{ip=192.0.2.1}@5 b{} 3/0s 0/0s")
	}
	if got, none := set.Schedules(), load(t, keyed("a", "ip")).Schedules(); got != 2 || none != 0 {
		t.Errorf("%d schedules and %d, want 2 and 0", got, none)
	}
}

// A shop may have other numbers every hour of the week.
func TestAHundredAndSixtyEightSchedulesOfALimitAreRead(t *testing.T) {
	var b strings.Builder
	b.WriteString(keyed("a", "ip"))
	for hour := range 168 {
		fmt.Fprintf(&b, "[schedule.a.h%03d]\nrate = \"%d/m\"\ndays = %q\ntimes = \"%02d:00-%02d:00\"\nzone = \"Europe/Berlin\"\n",
			hour, 1000+hour, dayNames[hour/24], hour%24, hour%24+1)
	}
	if _, name := load(t, b.String()).Limits()[0].InForce(utc(t, "2026-07-07T22:00:00Z")); name != "h048" {
		t.Errorf("on Wednesday at 0:00 it is %s, want h048", name)
	}
}
