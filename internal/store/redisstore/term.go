package redisstore

import (
	"time"
)

// A term is the context of a call: it ends at the call's deadline, or when the call has returned.
//
// context.WithDeadline would set a timer for each call and stop it again, which costs most where requests
// come one at a time. Lanes have one timer for all that are under way.
type term struct {
	deadline time.Time
	done     chan struct{}
	err      error // set before done is closed
}

func (t *term) Deadline() (time.Time, bool) { return t.deadline, true }

func (t *term) Done() <-chan struct{} { return t.done }

func (t *term) Value(any) any { return nil }

func (t *term) Err() error {
	select {
	case <-t.done:
		return t.err
	default:
		return nil
	}
}

// end ends it, for whoever comes first; under lanes.mu.
func (t *term) end(err error) {
	if t.Err() == nil {
		t.err = err
		close(t.done)
	}
}
