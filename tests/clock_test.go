package tests

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"authz/internal/store"
	"authz/limits"
)

// clock is that of one redis-server.
type clock struct {
	*redisServer
	file string
}

// startRedisWithClock starts a redis-server whose clock can be moved and stopped.
func startRedisWithClock(t *testing.T) (*redisServer, *clock) {
	t.Helper()
	shim, file := buildClock(t)
	c := &clock{file: file}
	c.redisServer = startRedis(t, "LD_PRELOAD="+shim, "CLOCK_OFFSET_US="+file)
	return c.redisServer, c
}

// buildClock makes what moves a clock, and the file that says where to.
func buildClock(t *testing.T) (shim, file string) {
	t.Helper()
	dir := t.TempDir()
	shim, file = filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset_us")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, "clock.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc clock.c: %v\n%s", err, out)
	}
	replaceFile(t, file, "0")
	return shim, file
}

// move lets the clock go, off by this much.
func (c *clock) move(t *testing.T, off time.Duration) {
	t.Helper()
	replaceFile(t, c.file, fmt.Sprint(off.Microseconds()))
	c.clockIsOffBy(t, off)
}

// stop stops the clock at an instant.
func (c *clock) stop(t *testing.T, at time.Time) {
	t.Helper()
	replaceFile(t, c.file, fmt.Sprint("=", at.UnixMicro()))
	if said := c.Time(context.Background()).Val(); !said.Equal(at) {
		t.Fatalf("Redis says it is %v, want %v", said, at)
	}
}

// clockIsOffBy fails unless the clock has been moved, whatever redis-server takes its time from.
func (r *redisServer) clockIsOffBy(t *testing.T, off time.Duration) {
	t.Helper()
	before := time.Now()
	said := r.Time(context.Background()).Val()
	if after := time.Now(); said.Before(before.Add(off-time.Second)) || said.After(after.Add(off+time.Second)) {
		t.Fatalf("Redis says it is %v, want %v and %v", said, before, off)
	}
}

// anHour is 10 an hour, of which no token comes back while a test runs.
func anHour(t *testing.T, algorithm string) *limits.Limit {
	if algorithm == "leaky_bucket" {
		return newLimit(t, algorithm, algorithm, 10, 3600e6, 9) // and the one that is served
	}
	return newLimit(t, algorithm, algorithm, 10, 3600e6, 10)
}

// secondsIntoTheHour is how far to move a clock to a few seconds after an hour has begun.
func secondsIntoTheHour() time.Duration {
	return time.Hour + 2*time.Second - time.Duration(time.Now().UnixNano())%time.Hour
}

func TestAnHourOffTwoInstancesAdmitExactlyTheLimit(t *testing.T) {
	r, clock := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	for _, hours := range []time.Duration{1, -1} {
		r.flush(t)
		clock.move(t, secondsIntoTheHour()+hours*time.Hour)
		for _, algorithm := range algorithms {
			if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%d hours, %s: %d admitted, want 10", hours, algorithm, n)
			}
		}
	}
}

// Ten minutes are less than a window or a refill, and lead into the window before.
func TestAClockThatStepsBackAdmitsNoneTwice(t *testing.T) {
	r, clock := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	off := secondsIntoTheHour()
	clock.move(t, off)
	for _, algorithm := range algorithms {
		if n := takeAtOnce(t, two, anHour(t, algorithm), 6, 1); n != 6 {
			t.Errorf("%s: %d admitted before the step, want 6", algorithm, n)
		}
	}
	clock.move(t, off-10*time.Minute)
	for _, algorithm := range algorithms {
		if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 4 {
			t.Errorf("%s: %d admitted after the step, want the other 4", algorithm, n)
		}
	}
}

// Three hours are more than a window or a refill: nobody is locked out for so long, and nobody
// gets more than the limit again.
func TestAClockSetBackFurtherStartsEachLimitAfreshOnce(t *testing.T) {
	r, clock := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	off := secondsIntoTheHour()
	clock.move(t, off)
	for range 2 {
		for _, algorithm := range algorithms {
			if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%s: %d admitted, want 10", algorithm, n)
			}
			if n := takeAtOnce(t, two, anHour(t, algorithm), 4, 1); n != 0 {
				t.Errorf("%s: %d more admitted, want 0", algorithm, n)
			}
		}
		clock.move(t, off-3*time.Hour)
	}
}

// The same story end to end: two processes, and the limits file. They ask each time: what is remembered
// lasts by the clock of the process, which nobody steps here.
func TestTwoServicesAdmitExactlyTheLimitByAnyClock(t *testing.T) {
	r, clock := startRedisWithClock(t)
	var text string
	for _, algorithm := range algorithms {
		text += limit(algorithm, algorithm, "10/h")
	}
	flags := []string{"--limits=" + limitsFile(t, text), "--redis=" + r.url(), "--redis-timeout=20s", "--refusals-max=0"}
	two := []*authzServer{startAuthz(t, flags...), startAuthz(t, flags...)}
	check := func(when string, n, want int) {
		t.Helper()
		for _, algorithm := range algorithms {
			want := want
			if algorithm == "leaky_bucket" {
				want = 1 // without a burst, and ten minutes are more than it takes to drain
			}
			got := manyAtOnce(t, n, two, func(int) (string, []string) { return "GET /" + algorithm, nil })
			if got["200"] != want || got["200"]+got["429"] != n {
				t.Errorf("%s, %s: %v, want %d admitted of %d", when, algorithm, got, want, n)
			}
		}
	}
	off := secondsIntoTheHour()
	for _, hours := range []time.Duration{1, -1} {
		r.flush(t)
		clock.move(t, off+hours*time.Hour)
		check(fmt.Sprint(int64(hours), " hours off"), 64, 10)
	}
	r.flush(t)
	clock.move(t, off)
	check("before the step", 6, 6)
	clock.move(t, off-10*time.Minute)
	check("after a step back", 32, 4)
	clock.move(t, off-3*time.Hour)
	check("set back further", 32, 10)
}
