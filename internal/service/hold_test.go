package service

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/store"
	"authz/limits"
)

// The first answer starts a goroutine of fasthttp, which no test may be the one to wait for.
func init() { _ = new(fasthttp.ResponseHeader).String() }

const leaky = `
	[limit.slow]
	match     = { path = "/slow" }
	key       = []
	algorithm = "leaky_bucket"
	rate      = "10/s"
	burst     = 2
	on_error  = "deny"`

// failing is a store that cannot decide.
type failing func() error

func (f failing) Take(_ context.Context, _ int64, _ []limits.Check, _ bool, dst []store.Result) ([]store.Result, error) {
	return dst, f()
}

// late is a store that takes its time.
type late struct {
	store.Store
	by time.Duration
}

func (l late) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	time.Sleep(l.by)
	return l.Store.Take(ctx, nowUS, checks, peek, dst)
}

// askHeld asks about a path and says what came of it, after how long.
func askHeld(t *testing.T, s *Service, path string) string {
	t.Helper()
	start := time.Now()
	_, text, _ := strings.Cut(answers(t, s, "X-Original-URI: "+path), "X-Authz-Status: ")
	status, _, _ := strings.Cut(text, "\n")
	return status + " after " + time.Since(start).String()
}

func TestALeakyBucketHoldsItsAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serviceFor(t, leaky)
		check := func(want string) {
			t.Helper()
			if got := askHeld(t, s, "/slow"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
		check("200 after 0s")
		check("200 after 100ms")
		check("200 after 100ms")
		time.Sleep(40 * time.Millisecond)
		check("200 after 60ms")
		time.Sleep(time.Minute)
		check("200 after 0s")
	})
}

// A store's clock that stepped back asks for more than the limit's own longest hold.
func TestNoAnswerIsHeldLongerThanHoldMax(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serviceFor(t, strings.Replace(leaky, "burst     = 2", "burst     = 9", 1)+"\n[defaults]\nhold_max = \"900ms\"\n")
		memory := s.store
		check := func(holdUS int64, by time.Duration, want string) {
			t.Helper()
			s.store = late{asking(holdUS), by}
			if got := askHeld(t, s, "/slow"); got != want {
				t.Errorf("a hold of %d us from a store that took %v: %s, want %s", holdUS, by, got, want)
			}
		}
		check(899_999, 0, "200 after 899.999ms")
		check(900_001, 0, "200 after 900ms")
		check(3600_000_000, 0, "200 after 900ms")
		// nginx waits a second for the store and the hold together
		check(900_000, 50*time.Millisecond, "200 after 950ms")
		check(900_000, 51*time.Millisecond, "200 after 950ms")
		check(100_000, 900*time.Millisecond, "200 after 950ms")
		check(100_000, 2*time.Second, "200 after 2s")
		check(0, 500*time.Millisecond, "200 after 500ms")
		s.store = memory
		if got, want := askHeld(t, s, "/slow"), "200 after 0s"; got != want {
			t.Errorf("then: %s, want %s", got, want)
		}
	})
}

// asking is a store that admits a check and asks for this hold.
type asking int64

func (h asking) Take(_ context.Context, _ int64, _ []limits.Check, _ bool, dst []store.Result) ([]store.Result, error) {
	return append(dst, store.Result{Allowed: true, Remaining: 1, WaitUS: int64(h)}), nil
}

func TestNoMoreAnswersAreHeldThanAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serviceFor(t, strings.NewReplacer("burst     = 2", "burst     = 9", `"10/s"`, `"20/s"`).Replace(leaky)+"\n[defaults]\nhold_max = \"450ms\"\n")
		s.heldMax = 4
		admitted := "200 OK\nX-Authz-Status: 200\nX-Authz-Limit: slow"
		refused := "403 Forbidden\nX-Authz-Status: 429\nX-Authz-Limit: slow\nRetry-After: 1\nRateLimit-Policy: \"slow\";q=10\nRateLimit: \"slow\";r=0;t=1"
		var clients sync.WaitGroup
		check := func(n, held int64, want string) {
			t.Helper()
			for range n {
				clients.Go(func() {
					if got := answers(t, s, "X-Original-URI: /slow"); !strings.HasPrefix(got, want) {
						t.Errorf("got\n%s\nwant\n%s", got, want)
					}
				})
			}
			synctest.Wait()
			if got := s.held.Load(); got != held {
				t.Errorf("%d answers are held, want %d", got, held)
			}
		}
		check(1, 0, admitted) // at once
		check(4, 4, admitted)
		check(50, 4, refused) // without the store
		if got, want := askHeld(t, s, "/free"), "200 after 0s"; got != want {
			t.Errorf("a request that no leaky bucket counts: %s, want %s", got, want)
		}
		time.Sleep(51 * time.Millisecond) // the first has gone
		check(1, 4, admitted)
		check(50, 4, refused)
		clients.Wait()
		check(0, 0, "")
		// The refused used nothing: five were admitted since, at 20/s.
		if got, want := askHeld(t, s, "/slow"), "200 after 50ms"; got != want {
			t.Errorf("after all: %s, want %s", got, want)
		}
	})
}

// Whatever becomes of a request, its place among the held is free again.
func TestAPlaceAmongTheHeldIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serviceFor(t, leaky+"\n[limit.strict]\nmatch = { path = \"/slow\" }\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"3/d\"\n")
		s.heldMax = 1
		memory := s.store
		check := func(by store.Store, want string) {
			t.Helper()
			s.store = by
			if got := askHeld(t, s, "/slow"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := s.held.Load(); got != 0 {
				t.Errorf("after %s: %d are held, want 0", want, got)
			}
		}
		check(memory, "200 after 0s")
		check(memory, "200 after 100ms")
		check(failing(func() error { return errors.New("down") }), "503 after 0s")
		check(failing(func() error { panic("BUG: a test's") }), "503 after 0s")
		check(memory, "200 after 100ms")
		check(memory, "429 after 0s") // strict
		if got, want := shown(t, s, "authz_held_answers"), "authz_held_answers 0\n"; got != want {
			t.Errorf("metrics: %swant %s", got, want)
		}
	})
}
