package redis

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/tests/rig"
)

func TestConcurrentRequestsShareCallsAndHardlyAllocate(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	l := rig.NewLimit(t, "api", "token_bucket", 1000, 1e6, 1000)
	const callers, times = 64, 200
	run := func() {
		var all sync.WaitGroup
		for i := range callers {
			checks := []limits.Check{rig.Check(l, fmt.Sprint("ip=203.0.113.", i), 1)}
			dst := make([]store.Result, 0, 1)
			all.Go(func() {
				for range times {
					if _, err := s.Take(context.Background(), 0, checks, false, dst); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	}
	run() // pools fill
	var before, after runtime.MemStats
	calls := r.Calls(t, "evalsha")
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	calls = r.Calls(t, "evalsha") - calls
	if calls*8 > callers*times {
		t.Errorf("%d calls for %d requests, want an eighth at most", calls, callers*times)
	}
	most := 2.0
	if len(rig.BuildFlags) > 0 { // the race detector makes sync.Pool forget at random
		most = 8
	}
	if got := float64(after.Mallocs-before.Mallocs) / (callers * times); got > most {
		t.Errorf("%.2f allocations a request in batches of %d, want %v at most", got, callers*times/calls, most)
	}
	// A request alone costs what go-redis does for any.
	alone, dst := []limits.Check{rig.Check(l, "ip=203.0.113.9", 1)}, make([]store.Result, 0, 1)
	if got := testing.AllocsPerRun(100, func() { s.Take(context.Background(), 0, alone, false, dst) }); got > 10+most {
		t.Errorf("%v allocations for a request alone, want 12 at most", got)
	}
}

// Of a shared call, each request has its own answer or its own error.
func TestASharedCallSpoilsNobody(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	l := rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0)
	r.LPush(context.Background(), string(rig.Check(l, "bad", 1).Key), "x")
	got := rig.AtOnce(64, 25, func(i int) string {
		switch i % 4 {
		case 0:
			return "bad " + rig.KindOf(s, rig.Check(l, "bad", 1), rig.Check(l, fmt.Sprint("spared", i), 1))
		case 1: // peeks charge nothing
			c := rig.Check(l, fmt.Sprint("peeked", i), 1)
			results, err := s.Take(context.Background(), 0, []limits.Check{c}, true, nil)
			return fmt.Sprint("peek ", results, err)
		}
		return "own " + rig.KindOf(s, rig.Check(l, fmt.Sprint("u", i), 1), rig.Check(rig.NewLimit(t, "wide", "fixed_window", 1000, 366*86400e6, 0), fmt.Sprint("u", i), 1))
	})
	for outcome := range got {
		if strings.HasPrefix(outcome, "peek ") && outcome != "peek [{true 5 0 0 false}] <nil>" {
			t.Errorf("%s, want nothing charged", outcome)
		}
	}
	rig.Same(t, fmt.Sprint(got["bad wrongtype"], got["own admitted"], got["own refused"], got["peek [{true 5 0 0 false}] <nil>"]), "400 160 640 400")
	if n := len(r.Keys(context.Background(), "*spared*").Val()); n != 0 {
		t.Errorf("%d neighbours in a spoilt request were charged", n)
	}
	r.ConfigSet(context.Background(), "maxmemory", "1")
	got = rig.AtOnce(64, 5, func(i int) string { return rig.KindOf(s, rig.Check(l, fmt.Sprint("new", i), 1)) })
	rig.Same(t, fmt.Sprint(got), "map[oom:320]")
}

// C107, C109, under load: whoever waits for a stopped Redis leaves at its own deadline, not at that of
// the call that it waits for. What was sent is charged once at most.
func TestManyThatWaitForAStoppedRedisLeaveInTime(t *testing.T) {
	r := rig.StartRedis(t)
	direct := rig.OpenRedis(t, r)
	s := rig.OpenRedisURL(t, r.URL(), 20*time.Second)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100000, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(s, c), "admitted")
	r.Signal(t, syscall.SIGSTOP)
	stopped := time.Now()
	var long sync.WaitGroup
	for range 40 { // these have the time, and most of them wait behind others
		long.Go(func() { rig.Same(t, rig.KindOf(s, c), "admitted") })
	}
	got := rig.AtOnce(100, 3, func(int) string {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Take(ctx, 0, []limits.Check{c}, false, nil)
		// A call ends for all at its sender's deadline, and who has 2 ms more is still in it.
		if deadline, _ := ctx.Deadline(); err != nil && time.Until(deadline) > 2*time.Millisecond {
			return "too early"
		}
		return redisstore.Kind(err)
	})
	if took := time.Since(stopped); took > 10*time.Second {
		t.Errorf("three times 100 ms took %v", took)
	}
	r.Signal(t, syscall.SIGCONT)
	long.Wait()
	if got["timeout"]+got["queue"]+got["pool"] != 300 {
		t.Errorf("%v, want 300 that had no time", got)
	}
	if used := 100000 - rig.Left(t, direct, c); used < 41 || used > 341 {
		t.Errorf("%d charged, want 41 that were admitted and 300 more at most", used)
	}
}

// More ask than a slow Redis can serve. It goes on answering whom it can, and the others are told that they
// are too many: not a failure that makes a limit of on_error = "allow" let everybody in.
func TestACrowdBeforeASlowRedisIsToldThatItIsACrowd(t *testing.T) {
	r := rig.StartRedis(t)
	rig.OpenRedis(t, r)
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		go func() {
			buf := make([]byte, 64<<10)
			for {
				n, err := server.Read(buf)
				if err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond)
				client.Write(buf[:n])
			}
		}()
		io.Copy(server, client)
	})
	s := rig.OpenRedisURL(t, front, 400*time.Millisecond)
	l := rig.NewLimit(t, "api", "fixed_window", 1000000, 366*86400e6, 0)
	got := rig.AtOnce(5000, 4, func(i int) string { return rig.KindOf(s, rig.Check(l, fmt.Sprint("u", i), 1)) })
	if got["timeout"] > 2000 || got["admitted"] < 500 || got["timeout"]+got["admitted"]+got["queue"] != 20000 {
		t.Errorf("%v, want admitted what fits and else queue", got)
	}
}

// C151: the memory of a key is used again as soon as Take has returned, also by those that left at
// their deadline while their call was under way. Redis sees no key that nobody sent.
func TestNoKeyIsReadAfterTakeHasReturned(t *testing.T) {
	r := rig.StartRedis(t)
	rig.OpenRedis(t, r)
	var dials atomic.Int64
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		// What waits for a slow connection has not been written yet when some of it leaves. And a call
		// that gets no answer closes its connection, so that the next one dials.
		go io.Copy(client, server)
		buf := make([]byte, 64<<10)
		slowDial := dials.Add(1)%2 == 0
		for call := 0; ; call++ {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			if call == 0 && slowDial || call%8 == 7 {
				time.Sleep(19 * time.Millisecond)
			}
			server.Write(buf[:n])
		}
	})
	s := rig.OpenRedisURL(t, front, 20*time.Millisecond)
	l := rig.NewLimit(t, "api", "fixed_window", 100000, 366*86400e6, 0)
	sent := map[string]bool{}
	for caller := range 64 {
		for id := range 10 {
			sent[string(rig.Check(l, fmt.Sprintf("caller=%d|id=%d", caller, id), 1).Key)] = true
		}
	}
	got := rig.AtOnce(64, 1, func(caller int) string {
		random, key := rand.New(rand.NewPCG(1, uint64(caller))), []byte(nil)
		c := rig.Check(l, "", 1)
		for range 100 {
			key = append(key[:0], rig.Check(l, fmt.Sprintf("caller=%d|id=%d", caller, random.IntN(10)), 1).Key...)
			c.Key = key
			rig.KindOf(s, c)
			for i := range key {
				key[i] = 'X'
			}
		}
		return "done"
	})
	rig.Same(t, fmt.Sprint(got), "map[done:64]")
	keys := r.Keys(context.Background(), "*").Val()
	if len(keys) == 0 {
		t.Error("no keys in Redis, want some")
	}
	for _, key := range keys {
		if !sent[key] {
			t.Errorf("Redis has the key %q, which nobody sent", key)
		}
	}
}
