package service

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authz/internal/store/redisstore"
	"authz/internal/testkit"
	"authz/limits"
)

// said is an error that Redis replied with.
type said string

func (e said) Error() string { return string(e) }

func (said) RedisError() {}

// The clock is synctest's: nothing waits.
func TestTheLogsLastWordOfTheStoreIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := testkit.Log()
		o := &outage{Log: log}
		var down atomic.Bool
		ctx, end := context.WithCancel(t.Context())
		ping := func(context.Context) error {
			if down.Load() {
				return context.DeadlineExceeded
			}
			return nil
		}
		go o.watch(ctx, ping)
		after := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			o.mu.Lock() // which the log is written under
			defer o.mu.Unlock()
			if got := out.String(); got != want {
				t.Errorf("logged\n%swant\n%s", got, want)
			}
			out.Reset()
		}
		fails := func(kind, text string, leftOut ...string) string {
			more := strings.Join(append([]string{""}, leftOut...), " left_out=")
			return "level=WARN msg=\"the store cannot answer, on_error decides\" kind=" + kind + " error=\"" + text + "\"" + more + "\n"
		}
		const late, full = "context deadline exceeded", "OOM command not allowed"
		again := func(failures int, within string) string {
			return fmt.Sprintf("level=INFO msg=\"the store answers again\" failures=%d within=%s\n", failures, within)
		}
		timeout := func() { o.failed(context.DeadlineExceeded) }
		oom := func() { o.failed(said(full)) }

		after(time.Hour, "")
		timeout()
		after(0, fails("timeout", late))
		// it comes and goes: a line in 30 s
		for range 9 {
			after(3*time.Second, "")
			o.answered()
			timeout()
			timeout()
		}
		after(3*time.Second, "")
		timeout()
		after(0, fails("timeout", late, "18"))
		timeout()
		// another kind has a line of its own
		oom()
		after(0, fails("oom", full))
		for range 1000 {
			timeout()
			oom()
		}
		o.answered()
		after(lineEvery-time.Second, "")
		after(2*time.Second, again(2022, "30s")) // without a request
		o.answered()
		after(0, "")
		// it fails again: that is said at once, and how many were left out before
		timeout()
		oom()
		after(0, fails("timeout", late, "1001")+fails("oom", full, "1000"))
		// what a ping does not meet ends with an answer
		after(time.Hour, "")
		if got := o.failing(); got != "oom" {
			t.Errorf("failing is %q, want oom", got)
		}
		o.answered()
		if got := o.failing(); got != "" {
			t.Errorf("failing is %q, want nothing once it has answered", got)
		}
		after(time.Second, again(2, "0s"))
		// an outage in which nobody asks
		timeout()
		down.Store(true)
		after(time.Hour, fails("timeout", late))
		if got := o.failing(); got != "" {
			t.Errorf("failing is %q, want nothing that a ping would meet", got)
		}
		down.Store(false)
		after(lineEvery-time.Second, "")
		after(2*time.Second, again(1, "1h0m0s"))
		end()
	})
}

// An account may lack what one limit needs: the answers to the others do not end that.
func TestWhatAnAccountMayNotDoGoesOnThoughOthersAreAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := testkit.Log()
		o := &outage{Log: log}
		check := func(want string) {
			t.Helper()
			o.answered()
			if got := o.failing(); got != want {
				t.Errorf("failing is %q, want %q", got, want)
			}
		}
		o.failed(said("NOPERM no permissions"))
		if want := "level=WARN msg=\"the store cannot answer, on_error decides\" kind=noperm error=\"NOPERM no permissions; see authz doctor\"\n"; out.String() != want {
			t.Errorf("logged\n%swant\n%s", out.String(), want)
		}
		check("noperm")
		o.failed(said("OOM command not allowed"))
		check("noperm")
		time.Sleep(lineEvery - 1)
		check("noperm")
		time.Sleep(time.Nanosecond)
		check("")
		o.failed(said("NOPERM no permissions"))
		o.failed(said("NOPERM no permissions")) // which is left out of the log
		check("noperm")
	})
}

func TestAStartWithoutRedisIsToldAndItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := testkit.Log()
		o := &outage{Log: log}
		var down atomic.Bool
		down.Store(true)
		ctx, end := context.WithCancel(t.Context())
		ready := 0
		o.awaitRedis(ctx, "redis://h:1", context.DeadlineExceeded, func(ctx context.Context) error {
			if down.Load() {
				return context.DeadlineExceeded
			}
			return ctx.Err()
		}, func() { ready++ })
		check := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := out.String(); got != want {
				t.Errorf("logged\n%swant\n%s", got, want)
			}
			out.Reset()
		}
		check("level=WARN msg=\"Redis is not ready, on_error decides until it is, see authz doctor\" redis=redis://h:1 kind=timeout error=\"context deadline exceeded\"\n")
		time.Sleep(time.Hour)
		check("")
		down.Store(false)
		time.Sleep(time.Second)
		check("level=INFO msg=\"Redis is ready\" redis=redis://h:1\n")
		// one that never comes
		down.Store(true)
		o.awaitRedis(ctx, "redis://h:1", context.DeadlineExceeded, func(context.Context) error { return context.DeadlineExceeded }, func() { ready++ })
		out.Reset()
		time.Sleep(time.Hour)
		end()
		check("")
		if ready != 1 {
			t.Errorf("ready %d times, want once", ready)
		}
	})
}

// With the breaker open its failures are not told beside it, and then once in 30 s.
func TestEachTurnOfTheBreakerIsOneLine(t *testing.T) {
	var down error
	redis, err := redisstore.Open(redisstore.Options{URL: "unix:///none", Timeout: time.Minute, Turned: func(_ string, err error) { down = err }})
	if err != nil {
		t.Fatal(err)
	}
	rate := limits.Rate{Count: 1, WindowUS: 1_000_000}
	checks := []limits.Check{{Limit: &limits.Limit{Algorithm: limits.FixedWindow}, Rate: &rate, Key: []byte("k"), Cost: 1}}
	take := func() error {
		_, err := redis.Take(t.Context(), 0, checks, false, nil)
		return err
	}
	for down == nil {
		take()
	}
	open := take()
	redis.Close()
	synctest.Test(t, func(t *testing.T) {
		log, out := testkit.Log()
		o := &outage{Log: log}
		check := func(want ...string) {
			t.Helper()
			if got := out.String(); got != strings.Join(append(want, ""), "\n") {
				t.Errorf("logged\n%swant\n%s", got, strings.Join(want, "\n"))
			}
			out.Reset()
		}
		const why = "dial unix /none: connect: no such file or directory"
		o.failed(down)
		o.failed(down)
		o.failed(down)
		o.turned("/none", down)
		for range 1000 {
			o.failed(open)
		}
		check(`level=WARN msg="the store cannot answer, on_error decides" kind=network error="`+why+`"`,
			`level=WARN msg="the breaker is open: Redis is not asked until a probe is answered, on_error decides" server=/none kind=network error="`+why+`"`)
		time.Sleep(lineEvery)
		o.failed(open)
		check(`level=WARN msg="the store cannot answer, on_error decides" kind=breaker error="Redis is not asked until a probe is answered: ` + why + `" left_out=1000`)
		time.Sleep(12 * time.Second)
		o.turned("/none", nil)
		check(`level=INFO msg="the breaker is closed: Redis answers" server=/none open_for=42s`)
		o.turned("/none", down)
		out.Reset()
		time.Sleep(time.Second)
		o.turned("/none", redisstore.ErrRetired)
		check(`level=INFO msg="the breaker is closed: nobody asks this server any more" server=/none open_for=1s`)
		if len(o.opened) != 0 {
			t.Errorf("%v are open, want none", o.opened)
		}
	})
}
