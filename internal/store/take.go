package store

import (
	"fmt"
	"slices"

	"authz/limits"
)

// A bucket is the stored state of one key, for every algorithm but sliding_window. The zero bucket
// was never used.
type bucket struct {
	unit     int64 // token and leaky bucket: w, used counts in 1/w token; windows: window_us
	timeUS   int64 // token and leaky bucket: the last charge; windows: where the current one begins
	used     int64 // token and leaky bucket: taken and not yet refilled; windows: the count
	previous int64 // sliding_counter: the count of the window before
}

// Never is the wait of a cost above the capacity.
const Never = -1

func (b bucket) settle(c *limits.Check, nowUS int64) bucket {
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		return b.refill(c.Rate, nowUS)
	case limits.FixedWindow, limits.SlidingCounter:
		return b.turn(c.Rate, nowUS)
	}
	panic(Unknown(c))
}

// Unknown is what is wrong with a check of an algorithm that is not here.
func Unknown(c *limits.Check) string {
	return fmt.Sprintf("BUG: limit %s has algorithm %d, which is not counted here", c.Limit.Name, c.Limit.Algorithm)
}

// look is the answer of a settled bucket when nothing is charged.
func (b bucket) look(c *limits.Check, nowUS int64) Result {
	r := Result{Remaining: b.remaining(c, nowUS), ResetUS: b.resetUS(c, nowUS)}
	if r.Allowed = c.Cost <= r.Remaining; !r.Allowed {
		r.WaitUS = b.waitUS(c, nowUS)
	}
	return r
}

// charge adds an allowed cost to a settled bucket, and brings the result of look up to date.
func (b bucket) charge(c *limits.Check, nowUS int64, r *Result) bucket {
	switch c.Limit.Algorithm {
	case limits.TokenBucket:
		b.used += c.Cost * c.Rate.W
	case limits.LeakyBucket:
		// Whoever waits before us has to leave first: the queue's reset is our hold.
		r.WaitUS = r.ResetUS
		b.used += c.Cost * c.Rate.W
	case limits.FixedWindow, limits.SlidingCounter:
		b.used += c.Cost
	default:
		panic(Unknown(c))
	}
	r.Remaining -= c.Cost
	r.ResetUS = b.resetUS(c, nowUS)
	return b
}

func (b bucket) remaining(c *limits.Check, nowUS int64) int64 {
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		return (c.Rate.Capacity - b.used) / c.Rate.W
	case limits.FixedWindow:
		return max(0, c.Rate.Count-b.used)
	case limits.SlidingCounter:
		left := c.Rate.Count*b.unit - b.used*b.unit - b.previous*(b.unit-b.elapsedUS(nowUS))
		return max(0, left) / b.unit
	}
	panic(Unknown(c))
}

func (b bucket) resetUS(c *limits.Check, nowUS int64) int64 {
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		return ceilDiv(b.used, c.Rate.N) + b.timeUS - nowUS
	case limits.FixedWindow:
		if b.used > 0 {
			return b.timeUS + b.unit - nowUS
		}
		return 0
	case limits.SlidingCounter:
		if b.used > 0 {
			return b.timeUS + 2*b.unit - nowUS
		}
		if b.previous > 0 {
			return b.timeUS + b.unit - nowUS
		}
		return 0
	}
	panic(Unknown(c))
}

// waitUS is how long a refused cost has to wait.
func (b bucket) waitUS(c *limits.Check, nowUS int64) int64 {
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		if c.Cost > c.Rate.Capacity/c.Rate.W {
			return Never
		}
		return ceilDiv(c.Cost*c.Rate.W-(c.Rate.Capacity-b.used), c.Rate.N) + b.timeUS - nowUS
	case limits.FixedWindow:
		if c.Cost > c.Rate.Count {
			return Never
		}
		return b.timeUS + b.unit - nowUS
	case limits.SlidingCounter:
		free := c.Rate.Count - c.Cost // what may be in use beside our cost
		if free < 0 {
			return Never
		}
		if b.used <= free { // in this window, when little enough of the previous one weighs
			return b.timeUS + b.unit - (free-b.used)*b.unit/b.previous - nowUS
		}
		return b.timeUS + 2*b.unit - free*b.unit/b.used - nowUS // in the next, likewise
	}
	panic(Unknown(c))
}

// refill settles a token or leaky bucket.
func (b bucket) refill(r *limits.Rate, nowUS int64) bucket {
	aheadUS := b.timeUS - nowUS
	fresh := bucket{unit: r.W, timeUS: nowUS, used: r.Cold()}
	if b.unit == 0 || aheadUS > r.Capacity/r.N {
		return fresh
	}
	if b.unit != r.W { // the limit was edited: whole tokens stay used
		b.used = min(ceilDiv(b.used, b.unit), r.Capacity/r.W) * r.W
		b.unit = r.W
	}
	b.used = min(b.used, r.Capacity)
	if aheadUS > 0 {
		return b // the refill resumes when the clock has caught up
	}
	switch elapsedUS, full := -aheadUS, ceilDiv(b.used, r.N); {
	case r.Initial > 0 && elapsedUS >= full+keptUS(r):
		return fresh
	case elapsedUS >= full: // also where the product below would not fit
		b.used = 0
	default:
		b.used -= elapsedUS * r.N
	}
	b.timeUS = nowUS
	return b
}

// keptUS is how long a bucket that is full is told from one that was never used.
func keptUS(r *limits.Rate) int64 {
	if r.Initial == 0 {
		return 0
	}
	return ceilDiv(r.Capacity, r.N)
}

// turn settles an aligned window.
func (b bucket) turn(r *limits.Rate, nowUS int64) bucket {
	windowUS, beginsUS := r.WindowUS, r.WindowBeginUS(nowUS)
	// A count that began elsewhere is of other windows: the limit had another window or offset.
	if b.unit == windowUS && r.WindowBeginUS(b.timeUS) == b.timeUS {
		switch b.timeUS - beginsUS {
		case 0, windowUS: // a window ahead by one is still the current one
			return b
		case -windowUS:
			return bucket{unit: windowUS, timeUS: beginsUS, previous: b.used}
		}
	}
	return bucket{unit: windowUS, timeUS: beginsUS}
}

// elapsedUS is the age of the current window, 0 when it lies ahead.
func (b bucket) elapsedUS(nowUS int64) int64 { return max(0, nowUS-b.timeUS) }

// A timeLog is what sliding_window stores: the time of each unit of cost, oldest first.
type timeLog struct {
	times []int64
	room  []int64 // the whole array that times is a part of, empty
}

// counted is the part of the log that the window ending at nowUS holds. Members later than
// now+window are of a clock that has been set back.
func (l *timeLog) counted(windowUS, nowUS int64) []int64 {
	from, _ := slices.BinarySearch(l.times, nowUS-windowUS+1)
	to, _ := slices.BinarySearch(l.times, nowUS+windowUS+1)
	return l.times[from:to]
}

// look is the answer when nothing is charged.
func (l *timeLog) look(c *limits.Check, nowUS int64) Result {
	times := l.counted(c.Rate.WindowUS, nowUS)
	used := int64(len(times))
	r := Result{Remaining: max(0, c.Rate.Count-used)}
	if used > 0 {
		r.ResetUS = times[used-1] + c.Rate.WindowUS - nowUS
	}
	switch r.Allowed = c.Cost <= r.Remaining; {
	case r.Allowed:
	case c.Cost > c.Rate.Count:
		r.WaitUS = Never
	default: // until so many of the oldest have left
		r.WaitUS = times[used+c.Cost-c.Rate.Count-1] + c.Rate.WindowUS - nowUS
	}
	return r
}

// charge adds an allowed cost, forgets what is not counted, and brings the result of look up to date.
func (l *timeLog) charge(c *limits.Check, nowUS int64, r *Result) {
	times := l.counted(c.Rate.WindowUS, nowUS)
	if need := len(times) + int(c.Cost); need > cap(times) {
		if need > cap(l.room) { // need is at most the limit; a quarter more keeps the moves few
			l.room = make([]int64, 0, min(2*need, int(c.Rate.Count+c.Rate.Count/4+1)))
		}
		times = append(l.room, times...)
	}
	newestUS := nowUS
	if n := len(times); n > 0 && times[n-1] > nowUS {
		newestUS = times[n-1]
	}
	for range c.Cost {
		times = append(times, nowUS)
	}
	if newestUS > nowUS { // the clock has stepped back
		slices.Sort(times)
	}
	l.times = times
	r.Remaining -= c.Cost
	r.ResetUS = newestUS + c.Rate.WindowUS - nowUS
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
