package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
)

// closedBreaker is never probed.
func closedBreaker(turned func(error)) *breaker {
	return newBreaker(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, turned)
}

// take makes a request of which this comes, if Redis is asked.
func (b *breaker) take(comes func() error) error {
	turn, err := b.begin()
	if err == nil {
		err = comes()
		b.learn(turn, err)
	}
	return err
}

var errOOM = said("OOM command not allowed when used memory > 'maxmemory'.")

// words are what may come of a request, in a word.
var words = map[string]error{"ok": nil, "timeout": errLate, "network": io.EOF, "pool": redis.ErrPoolTimeout,
	"noauth": said("WRONGPASS invalid username-password pair or user is disabled."), "queue": errQueueFull, "crowded": errCrowded,
	"oom": errOOM, "wrongtype": errWrongType, "loading": said("LOADING Redis is loading the dataset in memory"),
	"busy": said("BUSY Redis is busy running a script."), "other": errors.New("x"), "malformed": malformed("x")}

// ask is take in a word, and says which kind of answer there was.
func (b *breaker) ask(comes string) string { return Kind(b.take(func() error { return words[comes] })) }

func TestABreakerOpensAfterAFewFailuresInARow(t *testing.T) {
	check := func(requests, want string) {
		t.Helper()
		var turns []string
		b := closedBreaker(func(err error) { turns = append(turns, Kind(err)) })
		for comes := range strings.FieldsSeq(requests) {
			b.ask(comes)
		}
		got := "closed"
		if b.cause() != nil {
			got = "open by " + Kind(b.cause())
		}
		if kind := b.ask("ok"); (kind == "breaker") != (b.cause() != nil) {
			t.Errorf("%s: then %q", requests, kind)
		}
		if got != want || len(turns) > 1 || len(turns) == 1 && want != "open by "+turns[0] {
			t.Errorf("%s: %s, told %v, want %s", requests, got, turns, want)
		}
	}
	check("ok", "closed")
	check("timeout timeout", "closed")
	check("timeout timeout timeout", "open by timeout")
	check("timeout timeout timeout network ok", "open by timeout")
	check("timeout timeout pool", "open by pool")
	check("network network network", "open by network")
	check("noauth noauth noauth", "open by noauth")
	// an answer in between, whatever Redis says, begins anew
	check("timeout timeout ok timeout timeout ok timeout timeout", "closed")
	check("timeout timeout wrongtype timeout timeout oom timeout timeout", "closed")
	check("timeout timeout ok timeout timeout timeout", "open by timeout")
	// whatever Redis says for a request, or a crowd waits in vain while it answers others
	check(strings.Repeat("wrongtype oom loading busy other malformed ", 9), "closed")
	check(strings.Repeat("queue crowded ", 9), "closed")
	check("timeout queue timeout crowded timeout", "open by timeout")
}

// A hiccup that many meet is one.
func TestWhatFailsTogetherFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := closedBreaker(func(error) {})
		defer b.stop()
		late := func() error { time.Sleep(50 * time.Millisecond); return errLate }
		var requests sync.WaitGroup
		for range 100 {
			requests.Go(func() { b.take(late) })
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond)
		for range 60 { // of those before, one of the first failed at 50 ms and one that began then at 100
			requests.Go(func() {
				if err := b.take(late); Kind(err) != "timeout" {
					t.Errorf("%v, want a timeout", err)
				}
			})
		}
		time.Sleep(49 * time.Millisecond)
		if b.cause() != nil {
			t.Error("open after 159 ms, though nobody has failed who began after 101 ms")
		}
		requests.Wait()
		if b.cause() == nil {
			t.Error("closed after 160 ms")
		}
	})
}

// probing is a breaker in synctest's time, before a Redis that is up or down.
type probing struct {
	*breaker
	t      *testing.T
	down   atomic.Pointer[error]
	began  time.Time
	probes []string // when each began and what came of it
	turns  []string // likewise
}

func startProbing(t *testing.T, timeout time.Duration) *probing {
	p := &probing{t: t, began: time.Now()}
	p.breaker = newBreaker(func(ctx context.Context) error {
		start := p.at()
		err := p.down.Load()
		if err != nil && Kind(*err) == "timeout" {
			select { // of a hole in which everything vanishes: what was sent is not answered later
			case <-time.After(timeout):
			case <-ctx.Done():
			}
		}
		p.probes = append(p.probes, fmt.Sprint(start))
		if err == nil {
			return nil
		}
		return *err
	}, func(err error) { p.turns = append(p.turns, fmt.Sprint(p.at(), " ", Kind(err))) })
	return p
}

func (p *probing) at() int64 { return time.Since(p.began).Milliseconds() }

func (p *probing) goesDown(word string) {
	err := words[word]
	p.down.Store(&err)
	for range inARow {
		p.ask(word)
	}
}

func (p *probing) same(probes, turns string) {
	p.t.Helper()
	synctest.Wait()
	if got := strings.Join(p.probes, " "); got != probes {
		p.t.Errorf("probes at %s, want %s", got, probes)
	}
	if got := strings.Join(p.turns, ", "); got != turns {
		p.t.Errorf("turned at %s, want %s", got, turns)
	}
	p.probes, p.turns = nil, nil
}

func TestProbesCloseTheBreakerWhenRedisIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startProbing(t, 50*time.Millisecond)
		time.Sleep(time.Second)
		p.same("", "")
		p.goesDown("network")
		time.Sleep(3 * time.Second)
		p.same("1010 1030 1070 1150 1310 1630 2130 2630 3130 3630", "1000 network")
		if kind := p.ask("ok"); kind != "breaker" {
			t.Errorf("asked while open: %q, want breaker", kind)
		}
		p.down.Store(nil)
		time.Sleep(131 * time.Millisecond)
		p.same("4130", "4130 ")
		if kind := p.ask("ok"); kind != "" {
			t.Errorf("asked while closed: %q", kind)
		}
		// soon after, it goes on with the longest pause
		p.goesDown("timeout")
		time.Sleep(1499 * time.Millisecond)
		p.same("4631 5131", "4131 timeout")
		p.down.Store(nil)
		time.Sleep(time.Millisecond)
		p.same("5631", "5631 ")
		// later, it begins with the shortest
		time.Sleep(soon)
		p.goesDown("network")
		p.down.Store(nil)
		time.Sleep(time.Second)
		p.same("10641", "10631 network, 10641 ")
		// an error that Redis sends is an answer
		time.Sleep(soon)
		p.goesDown("timeout")
		p.down.Store(new(error(errOOM)))
		time.Sleep(time.Second)
		p.same("16641", "16631 timeout, 16641 ")
		// nothing is left of it after the end
		p.goesDown("timeout")
		p.stop()
		time.Sleep(time.Hour)
		p.same("", "17631 timeout")
	})
}

// Whatever the timeout, Redis is asked again within a second of its return.
func TestABreakerClosesWithinASecond(t *testing.T) {
	for _, timeout := range []time.Duration{time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 900 * time.Millisecond, time.Hour} {
		for _, away := range []time.Duration{time.Millisecond, 499 * time.Millisecond, 2 * time.Second, 2345 * time.Millisecond, time.Hour} {
			synctest.Test(t, func(t *testing.T) {
				p := startProbing(t, timeout)
				p.goesDown("timeout")
				time.Sleep(away)
				p.down.Store(nil)
				time.Sleep(time.Second)
				synctest.Wait()
				if p.cause() != nil {
					t.Errorf("open a second after Redis came back from %v, with a timeout of %v", away, timeout)
				}
				p.stop()
			})
		}
	}
}

// What began before the breaker turned neither closes nor opens it.
func TestABreakerHearsNothingOfOtherTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startProbing(t, 0)
		slow := func(comes error) {
			for range 10 {
				go p.take(func() error { time.Sleep(400 * time.Millisecond); return comes })
			}
			synctest.Wait()
		}
		slow(nil)
		slow(errLate)
		p.goesDown("network")
		time.Sleep(500 * time.Millisecond) // all of them have failed, or have been answered
		p.same("10 30 70 150 310", "0 network")
		p.ask("ok")
		slow(errLate)
		p.down.Store(nil)
		time.Sleep(200 * time.Millisecond)
		p.same("630", "630 ")
		time.Sleep(time.Second)
		p.same("", "")
		if kind := p.ask("timeout") + p.ask("timeout") + p.ask("ok"); kind != "timeouttimeout" {
			t.Errorf("then %s", kind)
		}
	})
}

// Nobody can switch a limit off by making a breaker open: it says what the failures say that opened it.
func TestABreakerRemembersThatClientsMayHaveOpenedIt(t *testing.T) {
	check := func(requests string, want bool) {
		t.Helper()
		b := closedBreaker(func(error) {})
		for comes := range strings.FieldsSeq(requests) {
			b.ask(comes)
		}
		err := b.take(nil)
		if Kind(err) != "breaker" || ClientCanCause(err) != want {
			t.Errorf("%s: %v, of kind %q that clients can cause: %v, want %v", requests, err, Kind(err), ClientCanCause(err), want)
		}
		if ClientCanCause(fmt.Errorf("wrapped: %w", err)) != want {
			t.Errorf("%s: wrapped it is not %v", requests, want)
		}
	}
	check("timeout timeout timeout", false)
	check("pool timeout timeout", true)
	check("timeout timeout pool", true)
	check("queue timeout timeout timeout", true)
	check("timeout crowded timeout timeout", true)
	check("oom network network network", true)
	check("oom ok network network network", false)
	check("queue ok network network network", false)
	check("oom wrongtype network network network", true)
	b := closedBreaker(func(error) {})
	b.ask("network")
	b.ask("network")
	b.ask("network")
	err := b.take(nil)
	if got, want := err.Error(), "Redis is not asked until a probe is answered: EOF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a crowd says that began before the latest failure which counts is what that says: Redis was silent.
func TestACrowdThatMeetsAnOutageHasNotCausedIt(t *testing.T) {
	check := func(requests string, want bool) {
		t.Helper()
		b := closedBreaker(func(error) {})
		for comes := range strings.FieldsSeq(requests) {
			word, stale := strings.CutPrefix(comes, "old-")
			turn, _ := b.begin()
			if stale {
				turn = 0 // before all others
			}
			b.learn(turn, words[word])
		}
		if err := b.take(nil); Kind(err) != "breaker" || ClientCanCause(err) != want {
			t.Errorf("%s: %v, that clients can cause: %v, want %v", requests, err, ClientCanCause(err), want)
		}
	}
	check("timeout old-crowded old-queue old-pool timeout old-crowded timeout", false)
	check("timeout old-crowded crowded timeout timeout", true)
	check("crowded timeout old-timeout timeout timeout", true)
	check("crowded old-ok timeout timeout old-crowded timeout", false)
}

func TestAClosedBreakerCostsNoMemoryAndNoLock(t *testing.T) {
	b := closedBreaker(func(error) {})
	b.mu.Lock() // for ever
	comes := func() error { return nil }
	if n := testing.AllocsPerRun(100, func() { b.take(comes) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	var none *breaker
	none.stop()
	if none.ask("timeout")+none.ask("timeout")+none.ask("timeout")+none.ask("timeout") != strings.Repeat("timeout", 4) || none.cause() != nil {
		t.Error("there is no breaker, and it opens")
	}
}

// For the race detector, and for whoever would wait for ever.
func TestABreakerUnderLoad(t *testing.T) {
	var down atomic.Bool
	outcome := func() error {
		if down.Load() {
			return errLate
		}
		return nil
	}
	var turns atomic.Int64
	opened, closed := make(chan struct{}, 1), make(chan struct{}, 1)
	b := newBreaker(func(context.Context) error { return outcome() }, func(err error) {
		turns.Add(1)
		if err != nil {
			opened <- struct{}{}
		} else {
			closed <- struct{}{}
		}
	})
	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				if err := b.take(outcome); err != nil && Kind(err) != "timeout" && Kind(err) != "breaker" {
					t.Errorf("%v", err)
				}
			}
		})
	}
	for range 3 {
		down.Store(true)
		<-opened
		down.Store(false)
		<-closed
	}
	end()
	running.Wait()
	if n := turns.Load(); n != 6 {
		t.Errorf("turned %d times, want 6", n)
	}
}

func BenchmarkAClosedBreaker(b *testing.B) {
	breaker, comes := closedBreaker(func(error) {}), func() error { return nil }
	b.ReportAllocs()
	for b.Loop() {
		breaker.take(comes)
	}
}
