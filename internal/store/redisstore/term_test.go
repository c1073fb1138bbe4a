package redisstore

import (
	"context"
	"testing"
	"time"
)

// The timer of the lanes ends a term at its deadline, a return ends it before that.
func TestATermEndsAtItsDeadlineOrAtTheReturn(t *testing.T) {
	is := func(c *call, want error) {
		t.Helper()
		<-c.term.Done()
		if got := c.term.Err(); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	sent := func(l *lanes, after time.Duration) *call {
		t.Helper()
		p := pendingOf(false)
		p.deadline = l.now() + after
		if free, err := l.enter(p); !free || err != nil {
			t.Fatalf("%v %v, want a free lane", free, err)
		}
		c := l.callOf(p)
		if at, ok := c.term.Deadline(); !ok || at != l.start.Add(p.deadline) {
			t.Errorf("got %v %v, want %v", at, ok, l.start.Add(p.deadline))
		}
		return c
	}
	l, _, _ := waiting(t, 0)
	later, soon := sent(l, 5*time.Millisecond), sent(l, time.Millisecond) // the timer is set anew for the second
	is(soon, context.DeadlineExceeded)
	is(later, context.DeadlineExceeded) // and for what is left
	l.leave(soon)
	is(soon, context.DeadlineExceeded) // as it was
	l.leave(later)

	never, over := sent(l, time.Hour), sent(l, 0)
	if err := over.term.Err(); err != context.DeadlineExceeded {
		t.Errorf("got %v after the deadline, want %v at once", err, context.DeadlineExceeded)
	}
	if err := never.term.Err(); err != nil {
		t.Errorf("got %v before the deadline, want nil", err)
	}
	l.leave(never)
	is(never, context.Canceled)
}
