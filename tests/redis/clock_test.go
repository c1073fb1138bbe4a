package redis

import (
	"fmt"
	"testing"
	"time"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

// anHour is 10 an hour, of which no token comes back while a test runs.
func anHour(t *testing.T, algorithm string) *limits.Limit {
	if algorithm == "leaky_bucket" {
		return rig.NewLimit(t, algorithm, algorithm, 10, 3600e6, 9) // and the one that is served
	}
	return rig.NewLimit(t, algorithm, algorithm, 10, 3600e6, 10)
}

// secondsIntoTheHour is how far to move a clock to a few seconds after an hour has begun.
func secondsIntoTheHour() time.Duration {
	return time.Hour + 2*time.Second - time.Duration(time.Now().UnixNano())%time.Hour
}

func TestAnHourOffTwoInstancesAdmitExactlyTheLimit(t *testing.T) {
	r, clock := rig.StartRedisWithClock(t)
	two := [2]store.Store{rig.OpenRedis(t, r), rig.OpenRedis(t, r)}
	for _, hours := range []time.Duration{1, -1} {
		r.Flush(t)
		clock.Move(t, secondsIntoTheHour()+hours*time.Hour)
		for _, algorithm := range rig.Algorithms {
			if n := rig.TakeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%d hours, %s: %d admitted, want 10", hours, algorithm, n)
			}
		}
	}
}

// Ten minutes are less than a window or a refill, and lead into the window before.
func TestAClockThatStepsBackAdmitsNoneTwice(t *testing.T) {
	r, clock := rig.StartRedisWithClock(t)
	two := [2]store.Store{rig.OpenRedis(t, r), rig.OpenRedis(t, r)}
	off := secondsIntoTheHour()
	clock.Move(t, off)
	for _, algorithm := range rig.Algorithms {
		if n := rig.TakeAtOnce(t, two, anHour(t, algorithm), 6, 1); n != 6 {
			t.Errorf("%s: %d admitted before the step, want 6", algorithm, n)
		}
	}
	clock.Move(t, off-10*time.Minute)
	for _, algorithm := range rig.Algorithms {
		if n := rig.TakeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 4 {
			t.Errorf("%s: %d admitted after the step, want the other 4", algorithm, n)
		}
	}
}

// Three hours are more than a window or a refill: nobody is locked out for so long, and nobody
// gets more than the limit again.
func TestAClockSetBackFurtherStartsEachLimitAfreshOnce(t *testing.T) {
	r, clock := rig.StartRedisWithClock(t)
	two := [2]store.Store{rig.OpenRedis(t, r), rig.OpenRedis(t, r)}
	off := secondsIntoTheHour()
	clock.Move(t, off)
	for range 2 {
		for _, algorithm := range rig.Algorithms {
			if n := rig.TakeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%s: %d admitted, want 10", algorithm, n)
			}
			if n := rig.TakeAtOnce(t, two, anHour(t, algorithm), 4, 1); n != 0 {
				t.Errorf("%s: %d more admitted, want 0", algorithm, n)
			}
		}
		clock.Move(t, off-3*time.Hour)
	}
}

// The same story end to end: two processes, and the limits file. They ask each time: what is remembered
// lasts by the clock of the process, which nobody steps here.
func TestTwoServicesAdmitExactlyTheLimitByAnyClock(t *testing.T) {
	r, clock := rig.StartRedisWithClock(t)
	var text string
	for _, algorithm := range rig.Algorithms {
		text += rig.Limit(algorithm, algorithm, "10/h")
	}
	flags := []string{"--limits=" + rig.LimitsFile(t, text), "--redis=" + r.URL(), "--redis-timeout=20s", "--refusals-max=0"}
	two := []*rig.AuthzServer{rig.StartAuthz(t, flags...), rig.StartAuthz(t, flags...)}
	check := func(when string, n, want int) {
		t.Helper()
		for _, algorithm := range rig.Algorithms {
			want := want
			if algorithm == "leaky_bucket" {
				want = 1 // without a burst, and ten minutes are more than it takes to drain
			}
			got := rig.ManyAtOnce(t, n, two, func(int) (string, []string) { return "GET /" + algorithm, nil })
			if got["200"] != want || got["200"]+got["429"] != n {
				t.Errorf("%s, %s: %v, want %d admitted of %d", when, algorithm, got, want, n)
			}
		}
	}
	off := secondsIntoTheHour()
	for _, hours := range []time.Duration{1, -1} {
		r.Flush(t)
		clock.Move(t, off+hours*time.Hour)
		check(fmt.Sprint(int64(hours), " hours off"), 64, 10)
	}
	r.Flush(t)
	clock.Move(t, off)
	check("before the step", 6, 6)
	clock.Move(t, off-10*time.Minute)
	check("after a step back", 32, 4)
	clock.Move(t, off-3*time.Hour)
	check("set back further", 32, 10)
}
