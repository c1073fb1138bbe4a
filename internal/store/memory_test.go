package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"authz/internal/testkit"
	"authz/limits"
)

// mustTake is for Memory, which does not fail.
func mustTake(m *Memory, nowUS int64, dst []Result, checks ...limits.Check) []Result {
	dst, err := m.Take(context.Background(), nowUS, checks, false, dst[:0])
	if err != nil {
		panic(err)
	}
	return dst
}

// Redis drops a bucket when it reads as never used by the numbers of its last charge. A limit that is
// made slower afterwards must not find it again.
func TestABucketThatHasExpiredIsNotRefilledAtAnEditedRate(t *testing.T) {
	quick := &limits.Limit{Name: "api", Algorithm: limits.TokenBucket,
		Rate: limits.Rate{Count: 3, WindowUS: 3000, Burst: 3, N: 1, W: 1000, Capacity: 3000}}
	slow := &limits.Limit{Name: "api", Algorithm: limits.TokenBucket,
		Rate: limits.Rate{Count: 3, WindowUS: 3600e6, Burst: 3, N: 1, W: 1200e6, Capacity: 3600e6}}
	m := NewMemory(10)
	mustTake(m, 0, nil, testkit.CheckOf(quick, "k"), testkit.CheckOf(quick, "l"))
	for start := time.Now(); time.Since(start) <= 3*time.Millisecond; {
		runtime.Gosched()
	}
	want := Result{Allowed: true, Remaining: 2, ResetUS: 1200e6}
	if got := mustTake(m, 0, nil, testkit.CheckOf(slow, "k")); got[0] != want {
		t.Errorf("%+v, want %+v", got[0], want)
	}
}

func TestATakeOfKnownKeysDoesNotAllocate(t *testing.T) {
	m, checks, nowUS := NewMemory(1000), testkit.AllAlgorithms(), int64(1e15)
	dst := make([]Result, 0, len(checks))
	take := func() {
		nowUS += 30e6 // admits, and turns windows
		dst = mustTake(m, nowUS, dst, checks...)
		if !dst[0].Allowed {
			t.Fatal("refused, want a charge")
		}
	}
	for range 100 { // the logs find their size
		take()
	}
	if n := testing.AllocsPerRun(1000, take); n != 0 {
		t.Errorf("%v allocations a charge, want 0", n)
	}
	if n := testing.AllocsPerRun(1000, func() { dst = mustTake(m, nowUS, dst, checks...) }); n != 0 {
		t.Errorf("%v allocations a Take, want 0", n)
	}
}

// A day of other keys every second, replayed in no time: each is gone when its minute is over.
func TestAReplayKeepsOnlyTheKeysThatAreInUse(t *testing.T) {
	m, most := NewReplayMemory(1<<20), 0
	l := testkit.LimitOf(limits.FixedWindow)
	for second := range int64(86400) {
		mustTake(m, 1e15+second*1e6, nil, testkit.CheckOf(l, fmt.Sprint(second)))
		most = max(most, m.Len())
	}
	if most > 150 {
		t.Errorf("%d buckets, want about 60, which is a key a second for a minute", most)
	}
}

// By the process's clock they would live a minute longer than their reset, and no more than that.
func TestAReplayForgetsByTheClockOfTheLogAlone(t *testing.T) {
	m, c := NewReplayMemory(10), testkit.CheckOf(testkit.LimitOf(limits.TokenBucket), "k")
	mustTake(m, 1e15, nil, c)
	mustTake(m, 1e15+12e6-1, nil, testkit.CheckOf(c.Limit, "l"))
	if m.Len() != 2 {
		t.Errorf("%d buckets a microsecond before the reset, want 2", m.Len())
	}
	for i := range int64(4) {
		mustTake(m, 1e15+12e6+i, nil, testkit.CheckOf(c.Limit, "l"))
	}
	if m.Len() != 1 {
		t.Errorf("%d buckets after the reset, want 1", m.Len())
	}
}

// When the store is full, a new bucket uses the memory of the one it replaces.
func TestATakeOfNewKeysDoesNotAllocateWhenFull(t *testing.T) {
	m, l, n := NewMemory(5000), testkit.LimitOf(limits.FixedWindow), 1000000
	c := testkit.CheckOf(l, "")
	dst := make([]Result, 0, 1)
	take := func() {
		n++
		c.Key = strconv.AppendInt(c.Key[:0], int64(n), 10)
		dst = mustTake(m, 1e15, dst, c)
	}
	for range 20000 {
		take()
	}
	if n := testing.AllocsPerRun(5000, take); n != 0 {
		t.Errorf("%v allocations a new key, want 0", n)
	}
	if m.Len() != 5000 {
		t.Errorf("%d buckets, want 5000", m.Len())
	}
}

func TestABucketTakesAbout96BytesBesideItsKey(t *testing.T) {
	const n, keyLen = 200000, 64
	size := func() int64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return int64(s.HeapAlloc)
	}
	before := size()
	m, l := NewMemory(2*n), testkit.LimitOf(limits.TokenBucket)
	for i := range n {
		mustTake(m, 1e15, nil, testkit.CheckOf(l, fmt.Sprintf("%0*d", keyLen, i)))
	}
	if got := (size() - before) / n; got > keyLen+104 {
		t.Errorf("%d bytes a bucket with a key of %d, want about 96 more", got, keyLen)
	}
	runtime.KeepAlive(m)
}

// A flood of new keys must not free whoever is blocked for a day, as long as others expire first.
func TestWhoIsBlockedLongestStaysWhenTheStoreIsFull(t *testing.T) {
	m := NewMemory(500)
	day, short := testkit.LimitOf(limits.FixedWindow), testkit.LimitOf(limits.FixedWindow)
	day.Rate.WindowUS = 86400e6
	blocked := testkit.CheckOf(day, "blocked")
	blocked.Cost = 5
	mustTake(m, 1e15, nil, blocked)
	for i := range 20000 {
		mustTake(m, 1e15, nil, testkit.CheckOf(short, fmt.Sprint(i)))
	}
	blocked.Cost = 1
	if r := mustTake(m, 1e15, nil, blocked); r[0].Allowed {
		t.Error("admitted, want the blocked key to be remembered")
	}
	if m.Len() > 500 {
		t.Errorf("%d buckets, want 500 at most", m.Len())
	}
}

// Two requests on the same two keys in opposite order would wait for each other for ever if the
// shards were locked in the order of the checks.
func TestConcurrentTakesOfManyShardsAdmitExactlyTheLimit(t *testing.T) {
	m, l := NewMemory(100000), testkit.LimitOf(limits.SlidingWindow)
	l.Rate.Count = 500
	var wg sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for g := range 8 {
		wg.Go(func() {
			checks := []limits.Check{testkit.CheckOf(l, "a"), testkit.CheckOf(l, "b"), testkit.CheckOf(l, "c")}
			if g%2 == 0 {
				checks[0], checks[2] = checks[2], checks[0]
			}
			for range 100 {
				if r := mustTake(m, 1e15, nil, checks...); r[0].Allowed && r[1].Allowed && r[2].Allowed {
					mu.Lock()
					admitted++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if admitted != 500 {
		t.Errorf("%d admitted, want 500", admitted)
	}
}

func TestMoreChecksThanUsualAreDecidedAsOne(t *testing.T) {
	m := NewMemory(1000)
	var checks []limits.Check
	for i := range 40 {
		checks = append(checks, testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), fmt.Sprint(i)))
	}
	for i := range 6 {
		if r := mustTake(m, 1e15, nil, checks...); r[39].Allowed != (i < 5) {
			t.Errorf("request %d: allowed is %v", i, r[39].Allowed)
		}
	}
}

func TestAnUnknownAlgorithmIsABugAndNoOther(t *testing.T) {
	panics := func(what string, f func()) {
		t.Helper()
		defer func() {
			if got, want := recover(), "BUG: limit x has algorithm 6, which is not counted here"; got != want {
				t.Errorf("%s: %v, want %s", what, got, want)
			}
		}()
		f()
	}
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "x")
	c.Limit.Name, c.Limit.Algorithm = "x", limits.SlidingCounter+1
	m := NewMemory(1000)
	panics("memory", func() { mustTake(m, 0, nil, c) })
	if r := mustTake(m, 0, nil, testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "x")); !r[0].Allowed {
		t.Error("refused after a panic, want a store that goes on")
	}
}

func BenchmarkMemoryTake(b *testing.B) {
	for _, c := range testkit.AllAlgorithms() {
		b.Run(c.Limit.Name, func(b *testing.B) { benchmarkTake(b, []limits.Check{c}) })
	}
	b.Run("three limits", func(b *testing.B) { benchmarkTake(b, testkit.AllAlgorithms()[:3]) })
}

func benchmarkTake(b *testing.B, checks []limits.Check) {
	m, dst, nowUS := NewMemory(100000), make([]Result, 0, 8), int64(1e15)
	b.ReportAllocs()
	for b.Loop() {
		nowUS += 10e6
		dst = mustTake(m, nowUS, dst, checks...)
	}
}

func BenchmarkMemoryTakeParallel(b *testing.B) {
	m, l := NewMemory(1000000), testkit.LimitOf(limits.TokenBucket)
	keys := make([][]byte, 100000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "authz:v1:{ip=198.51.100.%d}:api:tb", i)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		dst := make([]Result, 0, 1)
		c := testkit.CheckOf(l, "")
		for pb.Next() {
			c.Key = keys[rand.IntN(len(keys))]
			dst = mustTake(m, 0, dst, c)
		}
	})
}

func BenchmarkMemoryTakeOfNewKeysWhenFull(b *testing.B) {
	m, c, n := NewMemory(100000), testkit.CheckOf(testkit.LimitOf(limits.TokenBucket), ""), 100000000
	dst := make([]Result, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		n++
		c.Key = strconv.AppendInt(append(c.Key[:0], "authz:v1:api:tb:"...), int64(n), 10)
		dst = mustTake(m, 0, dst, c)
	}
}

// A client that makes up keys for a limit with a long window does not empty the bucket of a strict one: the new keys take
// the place of their own kind. So it is for any number of buckets, as the store of an instance and under on_error = "local".
func TestInventedKeysDoNotUndoAStrictLimit(t *testing.T) {
	for _, buckets := range []int{10, 1000, 5000, 50_000, 100_000} {
		m := NewMemory(buckets)
		login, plan := testkit.LimitOf(limits.SlidingWindow), testkit.LimitOf(limits.FixedWindow)
		login.Name, plan.Name = "login", "plan"
		login.Rate.Count, login.Rate.WindowUS, plan.Rate.WindowUS = 5, 60e6, 86400e6
		try := func() bool { return mustTake(m, 1e15, nil, testkit.CheckOf(login, "login"))[0].Allowed }
		for i := range 8 {
			if got := try(); got != (i < 5) {
				t.Fatalf("login %d: admitted %v", i, got)
			}
		}
		for i := range 3 * buckets {
			mustTake(m, 1e15, nil, testkit.CheckOf(plan, fmt.Sprint(i)))
			if i%97 == 0 && try() {
				t.Fatalf("%d buckets: a login is admitted after %d invented keys", buckets, i)
			}
		}
		if m.Len() > buckets || m.Dropped() < int64(buckets) {
			t.Errorf("%d of %d buckets, %d dropped, want a full store", m.Len(), buckets, m.Dropped())
		}
	}
}
