package store

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"authz/limits"
)

// A Breaker stands in front of Redis. When a few requests in a row have found that it cannot be reached,
// or does not answer in time, the breaker opens: nobody waits for Redis any more, whoever asks is told so
// at once. Probes ask meanwhile, and never with anybody's request; the first that is answered closes it.
//
// A request that is answered costs it three reads of memory: no lock is taken before something has failed.
type Breaker struct {
	store  Store
	turned func(error)

	open  atomic.Pointer[openError] // what all are told; nil while the breaker is closed
	turn  atomic.Uint64             // grows with every failure that counts
	shaky atomic.Bool               // there are failures that the next answer makes good

	mu        sync.Mutex // of what follows, and of every change to what is above
	machine   *gobreaker.CircuitBreaker[struct{}]
	byClients bool // a client may have caused one of the failures since the last answer
	opened    chan struct{}
}

// An openError is why nobody is asked.
type openError struct {
	cause     error // the failure that opened the breaker
	byClients bool
}

func (e *openError) Error() string {
	return "Redis is not asked until a probe is answered: " + e.cause.Error()
}
func (e *openError) Unwrap() error { return e.cause }

// inARow is how many failures open it. What fails together fails once: a request counts only if it began
// after the one that counted before, so that it takes more than one hiccup, however many met that.
const inARow = 3

// A probe follows the one before by firstPause, then by twice as long each time, up to lastPause, which
// leaves it time to be answered within a second of Redis's return. A breaker that opens soon after it has
// closed goes on where it was.
const (
	firstPause = 10 * time.Millisecond
	lastPause  = 500 * time.Millisecond
	soon       = 5 * time.Second
)

// outOfReach are the kinds of failure that say that Redis cannot be reached, or does not answer. Refused
// accounts are among them, for each request would connect again to be refused. The queue is not: whoever
// waited in vain did so while Redis answered others, and whoever found no place in it has not waited.
var outOfReach = []string{"timeout", "network", "pool", "noauth"}

func reached(err error) bool { return !slices.Contains(outOfReach, Kind(err)) }

// NewBreaker makes a breaker that is closed. It tells turned of each change, one after the other: why it
// opens, or nil when it closes.
func NewBreaker(s Store, turned func(error)) *Breaker {
	return &Breaker{store: s, turned: turned, opened: make(chan struct{}, 1), machine: gobreaker.NewCircuitBreaker[struct{}](gobreaker.Settings{
		ReadyToTrip:  func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= inARow },
		IsSuccessful: reached,
		Timeout:      1, // the next probe may try; Watch knows when
	})}
}

// Take is Store.Take of the store behind it, or an error of kind "breaker" at once. ClientCanCause says of
// that what it says of the failures that have opened the breaker.
func (b *Breaker) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
	if told := b.open.Load(); told != nil {
		return dst, told
	}
	turn := b.turn.Load()
	dst, err := b.store.Take(ctx, nowUS, checks, peek, dst)
	if err != nil || b.shaky.Load() {
		b.learn(turn, err)
	}
	return dst, err
}

// learn takes in what came of a request that began in this turn.
func (b *Breaker) learn(turn uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open.Load() != nil {
		return // what was under way; the probes decide
	}
	reached := reached(err)
	b.byClients = ClientCanCause(err) || b.byClients && err != nil
	b.shaky.Store(b.byClients || !reached)
	switch {
	case Kind(err) == "queue":
		return
	case !reached && turn != b.turn.Load():
		return
	case !reached:
		b.turn.Add(1)
	}
	b.machine.Execute(func() (struct{}, error) { return struct{}{}, err })
	if b.machine.State() != gobreaker.StateClosed {
		b.open.Store(&openError{err, b.byClients})
		b.turned(err)
		b.opened <- struct{}{}
	}
}

// Cause is why the breaker is open, nil while it is closed.
func (b *Breaker) Cause() error {
	if told := b.open.Load(); told != nil {
		return told.cause
	}
	return nil
}

// Watch probes by ping while the breaker is open, until ctx ends. Nothing else closes it. A ping that
// Redis answers with an error is answered: the requests will say what is wrong, each under its own kind.
func (b *Breaker) Watch(ctx context.Context, ping func(context.Context) error) {
	var pause time.Duration
	var closed time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.opened:
		}
		if time.Since(closed) >= soon {
			pause = 0
		}
		for began := time.Now(); b.machine.State() != gobreaker.StateClosed; {
			pause = min(max(2*pause, firstPause), lastPause)
			select {
			case <-ctx.Done():
				return
			case <-time.After(max(pause-time.Since(began), firstPause)):
			}
			began = time.Now()
			b.machine.Execute(func() (struct{}, error) { return struct{}{}, ping(ctx) })
			if ctx.Err() != nil {
				return // and what the ping said was that
			}
		}
		closed = time.Now()
		b.close()
	}
}

func (b *Breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turn.Add(1) // who fails now and began before has nothing new to say
	b.byClients = false
	b.shaky.Store(false)
	b.open.Store(nil)
	b.turned(nil)
}
