package tests

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// fivePerSecond are three limits that differ in how they count only, a path each.
const fivePerSecond = `
	[limit.fw]
	match     = { path = "/fw" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "5/s"
	[limit.sw]
	match     = { path = "/sw" }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "5/s"
	[limit.tb]
	match     = { path = "/tb" }
	key       = ["ip"]
	algorithm = "token_bucket"
	rate      = "5/s"
	burst     = 5`

// The boundary story, in real time: five requests late in one second and five early in the next. The
// clock is Redis's, which is asked before and after each five; only when they fell where the story has
// them does it say anything, and with a busy machine a later second and another client tell it.
func TestAFixedWindowAdmitsTwiceItsLimitAroundABoundary(t *testing.T) {
	s := startSite(t, siteConf{limits: fivePerSecond, server: closedServer})
	for client := 2; client < 60; client++ {
		s.from = fmt.Sprintf("127.0.0.%d", client)
		s.awaitPhase(t, 700*time.Millisecond)
		late := s.fiveOfEach(t)
		s.awaitPhase(t, 0)
		early := s.fiveOfEach(t)

		second := late.from.Truncate(time.Second)
		boundary := second.Add(time.Second)
		if !late.to.Before(boundary) || !early.from.Before(boundary.Add(time.Second)) ||
			early.from.Before(boundary) || !early.to.Before(late.from.Add(time.Second)) {
			continue
		}

		if got, want := fmt.Sprint(late.admitted), "map[fw:5 sw:5 tb:5]"; got != want {
			t.Errorf("late in a second: %s, want %s", got, want)
		}
		if got := early.admitted["fw"]; got != 5 {
			t.Errorf("fixed_window admits %d early in the next second, want 5: ten in all", got)
		}
		if got := early.admitted["sw"]; got != 0 {
			t.Errorf("sliding_window admits %d early in the next second, want 0: five in all", got)
		}
		// A token every 200 ms since the five were taken.
		least := int(early.from.Sub(late.to) / (200 * time.Millisecond))
		most := int(early.to.Sub(late.from) / (200 * time.Millisecond))
		if got := early.admitted["tb"]; got < least || got > most {
			t.Errorf("token_bucket admits %d early in the next second, want its refill: %d to %d", got, least, most)
		}
		return
	}
	t.Fatal("in 58 seconds no ten requests fell around a boundary")
}

// The same story by a clock that stands still: to the microsecond, and on any machine.
func TestTheBoundaryIsToTheMicrosecond(t *testing.T) {
	r, clock := startRedisWithClock(t)
	s := startSite(t, siteConf{limits: fivePerSecond, server: closedServer, redis: r,
		serve: []string{"--refusals-max=0"}}) // what is remembered lasts by another clock
	second := time.Unix(1_800_000_000, 0)
	for _, c := range []struct {
		at   time.Duration
		want string
	}{
		{700 * time.Millisecond, "map[fw:5 sw:5 tb:5]"},
		{time.Second - time.Microsecond, "map[fw:0 sw:0 tb:1]"}, // a token every 200 ms
		{time.Second, "map[fw:5 sw:0 tb:0]"},
		{1700*time.Millisecond - time.Microsecond, "map[fw:0 sw:0 tb:3]"},
		{1700 * time.Millisecond, "map[fw:0 sw:5 tb:1]"},
	} {
		clock.stop(t, second.Add(c.at))
		if got := fmt.Sprint(s.fiveOfEach(t).admitted); got != c.want {
			t.Errorf("after %v: %s, want %s", c.at, got, c.want)
		}
	}
}

// five is what became of five requests to each limit, and between which instants of Redis.
type five struct {
	from, to time.Time
	admitted map[string]int
}

func (s *site) fiveOfEach(t *testing.T) five {
	t.Helper()
	f := five{from: s.redisTime(t), admitted: map[string]int{"fw": 0, "sw": 0, "tb": 0}}
	for range 5 {
		for name := range f.admitted {
			switch got := s.send(t, "GET /"+name, "").status; got {
			case 200:
				f.admitted[name]++
			case 429:
			default:
				t.Errorf("/%s: %d, want 200 or 429", name, got)
			}
		}
	}
	f.to = s.redisTime(t)
	return f
}

func (s *site) redisTime(t *testing.T) time.Time {
	t.Helper()
	now, err := s.redis.Time(context.Background()).Result()
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// awaitPhase returns when Redis's clock is this far into a second, in the next one if it already is.
func (s *site) awaitPhase(t *testing.T, phase time.Duration) {
	t.Helper()
	now := s.redisTime(t)
	at := now.Truncate(time.Second).Add(phase)
	if at.Before(now) {
		at = at.Add(time.Second)
	}
	for now.Before(at) {
		time.Sleep(at.Sub(now))
		now = s.redisTime(t)
	}
}

// A leaky bucket holds its answers, through nginx too: five at once leave one after the other, and no
// hold becomes a 504, however many wait.
func TestALeakyBucketHoldsThroughNginx(t *testing.T) {
	s := startSite(t, siteConf{server: closedServer, limits: `
		[limit.slow]
		key       = ["zone"]
		missing   = "share"
		algorithm = "leaky_bucket"
		rate      = "10/s"
		burst     = 4`})
	start := s.redisTime(t)
	statuses := make(chan int, 5)
	for range cap(statuses) {
		go func() { statuses <- s.send(t, "GET /", "").status }()
	}
	for range cap(statuses) {
		if got := <-statuses; got != 200 {
			t.Errorf("%d, want 200", got)
		}
	}
	// The fifth is held until the four before it have drained, 100 ms each; the bucket has all of them.
	if got := s.redisTime(t).Sub(start); got < 400*time.Millisecond {
		t.Errorf("the last of five left after %v, want 400 ms or more", got)
	}
}
