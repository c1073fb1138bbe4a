package tests

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"authz/limits"
	"authz/store"
)

// startRedisWithClock starts a redis-server whose clock is off by what the returned function says.
func startRedisWithClock(t *testing.T) (r *redisServer, set func(off time.Duration)) {
	t.Helper()
	dir := t.TempDir()
	shim, file := filepath.Join(dir, "clock.so"), filepath.Join(dir, "offset_us")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", shim, "clock.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc clock.c: %v\n%s", err, out)
	}
	set = func(off time.Duration) {
		t.Helper()
		next := file + ".next" // renamed: redis-server may read at any moment
		if err := os.WriteFile(next, strconv.AppendInt(nil, off.Microseconds(), 10), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
		if r != nil {
			r.clockIsOffBy(t, off)
		}
	}
	set(0)
	r = startRedis(t, "LD_PRELOAD="+shim, "CLOCK_OFFSET_US="+file)
	return r, set
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

// secondsIntoTheHour moves the clock to a few seconds after an hour has begun.
func secondsIntoTheHour(set func(time.Duration)) (off time.Duration) {
	off = time.Hour + 2*time.Second - time.Duration(time.Now().UnixNano())%time.Hour
	set(off)
	return off
}

func TestAnHourOffTwoInstancesAdmitExactlyTheLimit(t *testing.T) {
	r, set := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	for _, hours := range []time.Duration{1, -1} {
		r.flush(t)
		secondsIntoTheHour(func(off time.Duration) { set(off + hours*time.Hour) })
		for _, algorithm := range algorithms {
			if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%d hours, %s: %d admitted, want 10", hours, algorithm, n)
			}
		}
	}
}

// Ten minutes are less than a window or a refill, and lead into the window before.
func TestAClockThatStepsBackAdmitsNoneTwice(t *testing.T) {
	r, set := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	off := secondsIntoTheHour(set)
	for _, algorithm := range algorithms {
		if n := takeAtOnce(t, two, anHour(t, algorithm), 6, 1); n != 6 {
			t.Errorf("%s: %d admitted before the step, want 6", algorithm, n)
		}
	}
	set(off - 10*time.Minute)
	for _, algorithm := range algorithms {
		if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 4 {
			t.Errorf("%s: %d admitted after the step, want the other 4", algorithm, n)
		}
	}
}

// Three hours are more than a window or a refill: nobody is locked out for so long, and nobody
// gets more than the limit again.
func TestAClockSetBackFurtherStartsEachLimitAfreshOnce(t *testing.T) {
	r, set := startRedisWithClock(t)
	two := [2]store.Store{openRedis(t, r), openRedis(t, r)}
	off := secondsIntoTheHour(set)
	for range 2 {
		for _, algorithm := range algorithms {
			if n := takeAtOnce(t, two, anHour(t, algorithm), 16, 2); n != 10 {
				t.Errorf("%s: %d admitted, want 10", algorithm, n)
			}
			if n := takeAtOnce(t, two, anHour(t, algorithm), 4, 1); n != 0 {
				t.Errorf("%s: %d more admitted, want 0", algorithm, n)
			}
		}
		set(off - 3*time.Hour)
	}
}
