package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// said is an error that Redis replied with.
type said string

func (e said) Error() string { return string(e) }
func (said) RedisError()     {}

// The clock is synctest's: nothing waits.
func TestTheLogsLastWordOfTheStoreIsTrue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := lines()
		o := &outage{log: log}
		var down atomic.Bool
		ctx, end := context.WithCancel(t.Context())
		go o.watch(ctx, func(context.Context) error {
			if down.Load() {
				return context.DeadlineExceeded
			}
			return nil
		})
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
		fails := func(kind, text string) string {
			return "level=WARN msg=\"the store cannot answer, on_error decides\" kind=" + kind + " error=\"" + text + "\"\n"
		}
		timeout, oom := fails("timeout", "context deadline exceeded"), fails("oom", "OOM command not allowed")
		const again = "level=INFO msg=\"the store answers again\"\n"

		after(time.Hour, "")
		o.failed(context.DeadlineExceeded)
		after(0, timeout)
		// it comes and goes
		for range 4 {
			after(3*time.Second, "")
			o.answered()
			o.failed(context.DeadlineExceeded)
		}
		after(calm+time.Second, again) // without a request
		o.answered()
		after(0, "")
		// within the minute, and at once
		o.failed(context.DeadlineExceeded)
		after(0, timeout)
		down.Store(true)
		after(59*time.Second, "")
		after(2*time.Second, timeout) // a reminder
		after(time.Hour, strings.Repeat(timeout, 60))
		down.Store(false)
		after(10*time.Second, again)
		// what a ping does not meet ends with a charge alone
		o.failed(said("OOM command not allowed"))
		after(0, oom)
		after(time.Minute, "")
		o.answered()
		after(0, again)
		// a start without Redis
		o.begin(context.DeadlineExceeded, "Redis is not ready", "Redis is ready", "redis", "redis://h:1")
		after(0, "level=WARN msg=\"Redis is not ready\" redis=redis://h:1 kind=timeout error=\"context deadline exceeded\"\n")
		after(10*time.Second, "level=INFO msg=\"Redis is ready\"\n")
		end()
	})
}
