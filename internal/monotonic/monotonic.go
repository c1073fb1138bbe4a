// Package monotonic has a clock that only goes forward.
package monotonic

import (
	"sync/atomic"
	"time"
)

var started = time.Now()

// Now is the time since the process began: half as dear to read as time.Now.
func Now() time.Duration { return time.Since(started) }

// OncePerMinute bounds a kind of log line.
type OncePerMinute struct{ next atomic.Int64 } // nanoseconds since started

// Due is true for the first of many, and then once a minute.
func (o *OncePerMinute) Due() bool {
	now, next := int64(time.Since(started)), o.next.Load()
	return now >= next && o.next.CompareAndSwap(next, now+int64(time.Minute))
}
