package redisstore

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Requests that come while calls are under way share the next one. Nobody waits for company: with a
// lane free, the caller itself sends its request, at once and alone. With none free it queues, and
// whoever's call returns first hands its lane to one of those that wait, which sends what has gathered.
//
// Who has waited for half of its time is not sent any more: its call would take the lane from those that
// still have the time for an answer, get none, and cost a connection.
//
// A few requests are served soonest over two lanes. A crowd is served best over one, by calls as large
// as the time of the one before lets gather: that costs the processor least, ours and Redis's. And when
// more wait than a call can take, Redis is far away: then there are four.
const (
	maxLanes = 4
	fewLanes = 2
	crowd    = 8   // requests: so many in a call, or more at once, are one
	maxBatch = 128 // requests in a call
	maxQueue = 8192

	// maxWeight is the work in a call, unless one request has more: Redis serves nobody else meanwhile. A weight
	// of 1 takes Redis 2 to 5 us (TestAFloodOfCostlyRequestsOpensNothing), so that a call takes some 2 ms, and the calls
	// on all lanes some 8, of the 50 ms that a request has.
	maxWeight = 512

	// A call ends by the deadline of its sender. Who has a later one than this waits for another.
	sameTime = 2 * time.Millisecond
)

var (
	errQueueFull = &kindError{"queue", fmt.Errorf("%d requests wait for Redis, no more can", maxQueue)}
	errLate      = &kindError{"timeout", fmt.Errorf("Redis has not answered in time: %w", context.DeadlineExceeded)}
	errCrowded   = &kindError{"queue", fmt.Errorf("Redis has not answered so many in time: %w", context.DeadlineExceeded)}
)

// A signal is what a caller that waits is told.
type signal uint8

const (
	answered signal = iota // there is a reply or an error
	late                   // the deadline has passed; the pending belongs to nobody
	crowded                // likewise, but in a crowd or while Redis has answered others: it may have too much to do
	lead                   // it has been given a lane: it is to send what waits
)

// lanes is who is under way to Redis, and who waits.
type lanes struct {
	mu      sync.Mutex
	busy    int           // lanes taken; somebody waits only if one is
	size    float64       // requests in the last calls: a moving average
	queue   []*pending    // who waits, in the order of arrival
	flying  []*call       // what is under way
	heard   int64         // calls that Redis has answered
	heardAt time.Duration // when it answered the latest

	crowdedAt time.Duration // when a request was late in a crowd, the latest time

	start   time.Time
	watch   *time.Timer   // runs expire at watchAt
	watchAt time.Duration // no later than the first deadline of those who wait or are under way; 0: there is none
}

func (l *lanes) init() {
	l.start = time.Now()
	l.watch = time.AfterFunc(time.Hour, l.expire)
	l.watch.Stop()
}

// now is a clock that nobody sets.
func (l *lanes) now() time.Duration { return time.Since(l.start) }

// enter takes a free lane for p, or a place in the queue.
func (l *lanes) enter(p *pending) (free bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.busy < l.open():
		l.busy++
		p.waited = false
		return true, nil
	case len(l.queue) == maxQueue:
		return false, errQueueFull
	}
	p.waited, p.heard = true, l.heard
	l.queue = append(l.queue, p)
	l.watchFor(p.deadline)
	return false, nil
}

func (l *lanes) watchFor(deadline time.Duration) {
	if l.watchAt == 0 || deadline < l.watchAt {
		l.watchAt = deadline
		l.watch.Reset(deadline - l.now())
	}
}

// open is how many calls may be under way now.
func (l *lanes) open() int {
	switch {
	case len(l.queue) >= maxBatch:
		return maxLanes
	case l.size < crowd:
		return fewLanes
	}
	return 1
}

// stale says whether half of the time of p is over.
func (p *pending) stale(now time.Duration) bool { return now > p.deadline-p.half }

// leader is who of those that wait is to send the next call, or -1: of all that it has room for the one
// whose deadline comes last. It ends the call for all, and has nobody else's answer to wait for beyond
// that.
func (l *lanes) leader(now time.Duration) int {
	leader, n, weight := -1, 0, 0
	for i, p := range l.queue {
		if p.stale(now) {
			continue
		}
		weight += p.weight
		if n == maxBatch || n > 0 && weight > maxWeight {
			break
		}
		n++
		if leader < 0 || p.deadline >= l.queue[leader].deadline {
			leader = i
		}
	}
	return leader
}

// gather adds to the call of its sender what waits and has room in it, the longest waiting first, and
// begins it.
func (l *lanes) gather(c *call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, latest, full := l.now(), c.members[0].deadline+sameTime, false
	l.queue = slices.DeleteFunc(l.queue, func(p *pending) bool {
		if full || p.stale(now) || p.deadline > latest {
			return false
		}
		if full = len(c.members) == maxBatch || c.weight+p.weight > maxWeight; full {
			return false
		}
		c.add(p)
		return true
	})
	l.begin(c)
}

// begin has a call under way, until it leaves.
func (l *lanes) begin(c *call) {
	deadline := c.members[0].deadline
	c.heard = l.heard
	c.term = &term{deadline: l.start.Add(deadline), done: make(chan struct{})}
	l.flying = append(l.flying, c)
	if deadline <= l.now() { // go-redis asks that first, and would give up a connection for it later
		c.term.end(context.DeadlineExceeded)
	}
	l.watchFor(deadline)
}

// leave gives the lane of a call that has returned to one of those that wait, and then its members
// their answers.
func (l *lanes) leave(c *call) {
	l.mu.Lock()
	if c.late && l.isCrowd() {
		l.crowdedAt = l.now()
	}
	i := slices.Index(l.flying, c)
	l.flying = slices.Delete(l.flying, i, i+1)
	c.term.end(context.Canceled)
	switch {
	case c.answered:
		l.heard++
		l.heardAt = l.now()
	case c.late:
		for _, p := range c.members {
			if l.lives(p, c.heard) {
				p.err = errCrowded
			}
		}
	}
	l.size += (float64(len(c.members)) - l.size) / 8
	var next *pending
	if i := l.leader(l.now()); i >= 0 && l.busy <= l.open() {
		next = l.queue[i]
		l.queue = slices.Delete(l.queue, i, i+1)
	} else {
		l.busy--
	}
	l.mu.Unlock()
	if next != nil {
		next.wake <- lead
	}
	for _, p := range c.members[1:] {
		if !p.left {
			p.wake <- answered
		}
	}
}

// lives reports whether Redis need not hang though p is late. It has answered others since it had answered `heard` calls,
// and lately: within half of the time that p had. Or p was late in a crowd, or a moment after one, which clients can bring
// about: then the breaker asks Redis whether it hangs.
func (l *lanes) lives(p *pending, heard int64) bool {
	now := l.now()
	if l.heard > heard && now-l.heardAt < p.half {
		l.crowdedAt = now
		return true
	}
	return l.crowdedAt != 0 && now-l.crowdedAt < 2*p.half
}

// isCrowd reports whether those that wait or are under way are so many that clients can bring their delay about.
func (l *lanes) isCrowd() bool {
	asking := len(l.queue)
	for _, c := range l.flying {
		asking += len(c.members)
	}
	return asking > crowd
}

// expire tells those whose deadline has passed, ends the term of their calls, and comes again at the next
// deadline.
func (l *lanes) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.watchAt = 0
	inCrowd := l.isCrowd()
	// heard: what Redis had answered when it began to wait for a lane, or when it was sent.
	isLate := func(p *pending, heard int64) bool {
		switch {
		case p.left:
		case p.deadline <= now:
			p.left = true
			if inCrowd {
				l.crowdedAt = now
			}
			if l.lives(p, heard) {
				p.wake <- crowded
			} else {
				p.wake <- late
			}
		default:
			l.watchFor(p.deadline)
		}
		return p.left
	}
	l.queue = slices.DeleteFunc(l.queue, func(p *pending) bool { return isLate(p, p.heard) })
	for _, c := range l.flying {
		for _, p := range c.members[1:] { // the first is the sender, whose deadline is the call's
			isLate(p, c.heard)
		}
		if deadline := c.members[0].deadline; deadline <= now {
			c.term.end(context.DeadlineExceeded)
		} else {
			l.watchFor(deadline)
		}
	}
}
