package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A breaker stands in front of a Redis server. When a few requests in a row have found that it cannot be
// reached, or does not answer in time, the breaker opens: nobody waits for that server any more, whoever
// asks is told so at once. Probes ask meanwhile, and never with anybody's request; the first that is
// answered closes it.
//
// A request that is answered costs it three reads of memory: no lock is taken before something has failed.
// A nil breaker is always closed.
type breaker struct {
	ping   func(context.Context) error
	turned func(error)

	open  atomic.Pointer[openError] // what all are told; nil while the breaker is closed
	turn  atomic.Uint64             // grows with every failure that counts
	shaky atomic.Bool               // there are failures that the next answer makes good

	mu        sync.Mutex // of what follows, and of every change to what is above
	machine   *gobreaker.CircuitBreaker[struct{}]
	byClients bool          // a client may have caused one of the failures since the last answer
	pause     time.Duration // between the latest two probes
	closed    time.Time     // the latest time
	doubting  bool          // doubt runs
	hears     bool          // Redis has answered a request since doubt began
	doubted   time.Time     // when it ended the latest time

	life context.Context // of the probes
	end  context.CancelFunc
}

// inARow is how many failures open it. What fails together fails once: a request counts only if it began
// after the one that counted before, so that it takes more than one hiccup, however many met that.
const inARow = 3

// A probe of an account that is refused comes once a second. Else a probe follows the one before by firstPause, then by
// twice as long each time, up to lastPause, which is also the longest that it waits for an answer: Redis is asked again
// within a second of its return. A breaker that opens soon after it has closed goes on where it was. While crowds wait
// in vain, a doubt follows the one before by againAfter.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	soon       = 5 * time.Second
	againAfter = 100 * time.Millisecond
)

// outOfReach are the kinds of failure that say that Redis cannot be reached, or does not answer. Refused
// accounts are among them, for each request would connect again to be refused. The queue is not: whoever
// waited in vain did so in a crowd, and whoever found no place in it has not waited. Then doubt decides.
var outOfReach = []string{"timeout", "network", "pool", "noauth"}

func reached(err error) bool { return !slices.Contains(outOfReach, Kind(err)) }

// An openError is why nobody is asked.
type openError struct {
	cause     error // the failure that opened the breaker
	byClients bool
}

func (e *openError) Error() string {
	return "Redis is not asked until a probe is answered: " + e.cause.Error()
}

func (e *openError) Unwrap() error { return e.cause }

// ErrRetired is why the breaker of a node closes that has no slots any more: nobody asks it.
var ErrRetired = errors.New("nobody asks this server any more")

// newBreaker makes a breaker that is closed, and probes by ping. It tells turned of each change, one after
// the other: why it opens, or when it closes nil or ErrRetired, which is for ping to say.
func newBreaker(ping func(context.Context) error, turned func(error)) *breaker {
	b := &breaker{ping: ping, turned: turned, machine: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= inARow },
		IsSuccessful: reached,
		Timeout:      1, // the next probe may try: when it comes is for probe to say
	})}
	b.life, b.end = context.WithCancel(context.Background())
	return b
}

// stop ends the probes, for good.
func (b *breaker) stop() {
	if b != nil {
		b.end()
	}
}

// begin is for who is about to ask Redis: an error of kind "breaker", or what learn wants to hear.
// ClientCanCause says of the error what it says of the failures that have opened the breaker.
func (b *breaker) begin() (turn uint64, err error) {
	if b == nil {
		return 0, nil
	}
	if told := b.open.Load(); told != nil {
		return 0, told
	}
	return b.turn.Load(), nil
}

// learn takes in what came of a request that began in this turn.
func (b *breaker) learn(turn uint64, err error) {
	if b != nil && (err != nil || b.shaky.Load()) {
		b.weigh(turn, err)
	}
}

func (b *breaker) weigh(turn uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() != nil {
		return // what was under way; the probes decide
	}
	reached := reached(err)
	// Who began before the latest failure that counts is of the same crowd, and waited for the same silence.
	b.byClients = err != nil && (b.byClients || ClientCanCause(err) && turn == b.turn.Load())
	b.shaky.Store(b.byClients || !reached || b.doubting)
	switch {
	case Kind(err) == "queue":
		if !b.doubting && time.Since(b.doubted) >= againAfter {
			b.doubting, b.hears = true, false
			b.shaky.Store(true) // the next answer is heard
			go b.doubt()
		}
		return
	case reached:
		b.hears = true
	case turn != b.turn.Load():
		return
	default:
		b.turn.Add(1)
	}
	b.count(err)
	if b.machine.State() != gobreaker.StateClosed {
		b.opened(err, b.byClients)
	}
}

// count counts an outcome.
func (b *breaker) count(err error) {
	b.machine.Execute(func() (struct{}, error) { return struct{}{}, err })
}

// opened has the breaker open from here on.
func (b *breaker) opened(cause error, byClients bool) {
	b.open.Store(&openError{cause, byClients})
	b.turned(cause)
	if time.Since(b.closed) >= soon {
		b.pause = 0
	}
	go b.probe()
}

// doubt finds out what a crowd cannot tell that waits in vain: whether Redis has too much to do, or hangs. One that
// answers nothing in time for as long as lastPause, no ping and no request, hangs.
func (b *breaker) doubt() {
	ctx, cancel := context.WithTimeout(b.life, lastPause)
	defer cancel()
	err := b.ping(ctx)
	for !reached(err) && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(firstPause):
			err = b.ping(ctx)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.doubting, b.doubted = false, time.Now()
	if b.hears || reached(err) || b.life.Err() != nil || b.open.Load() != nil {
		return
	}
	b.turn.Add(1)
	for b.machine.State() == gobreaker.StateClosed {
		b.count(err)
	}
	b.opened(err, false)
}

// cause is why the breaker is open, nil while it is closed.
func (b *breaker) cause() error {
	if b != nil {
		if told := b.open.Load(); told != nil {
			return told.cause
		}
	}
	return nil
}

// probe pings until that is answered, be it with an error: then the requests will say what is wrong, each
// under its own kind.
func (b *breaker) probe() {
	var last error
	opened := time.Now()
	for began := opened; b.machine.State() != gobreaker.StateClosed; {
		b.pause = min(max(2*b.pause, firstPause), lastPause)
		if Kind(b.cause()) == "noauth" {
			b.pause = heldFor // each probe costs a connection
		}
		select {
		case <-b.life.Done():
			return
		case <-time.After(max(b.pause-time.Since(began), firstPause)):
		}
		began = time.Now()
		b.machine.Execute(func() (struct{}, error) {
			ctx, cancel := context.WithTimeout(b.life, lastPause)
			defer cancel()
			last = b.ping(ctx)
			return struct{}{}, last
		})
		if b.life.Err() != nil {
			return // and what the ping said was that
		}
		if !reached(last) && time.Since(opened) >= lastPause { // though nobody asks: no client has brought that about
			b.open.Store(&openError{b.cause(), false})
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = time.Now()
	b.turn.Add(1) // who fails now and began before has nothing new to say
	b.byClients = false
	b.shaky.Store(false)
	b.open.Store(nil)
	if errors.Is(last, ErrRetired) {
		b.turned(ErrRetired)
	} else {
		b.turned(nil)
	}
}
