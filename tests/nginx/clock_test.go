package nginx

import (
	"fmt"
	"testing"
	"time"

	"authz/tests/rig"
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
	s := rig.StartSite(t, rig.SiteConf{Limits: fivePerSecond, Server: rig.ClosedServer})
	for client := 2; client < 60; client++ {
		s.From = fmt.Sprintf("127.0.0.%d", client)
		s.AwaitPhase(t, 700*time.Millisecond)
		late := s.FiveOfEach(t)
		s.AwaitPhase(t, 0)
		early := s.FiveOfEach(t)

		second := late.From.Truncate(time.Second)
		boundary := second.Add(time.Second)
		if !late.To.Before(boundary) || !early.From.Before(boundary.Add(time.Second)) ||
			early.From.Before(boundary) || !early.To.Before(late.From.Add(time.Second)) {
			continue
		}

		if got, want := fmt.Sprint(late.Admitted), "map[fw:5 sw:5 tb:5]"; got != want {
			t.Errorf("late in a second: %s, want %s", got, want)
		}
		if got := early.Admitted["fw"]; got != 5 {
			t.Errorf("fixed_window admits %d early in the next second, want 5: ten in all", got)
		}
		if got := early.Admitted["sw"]; got != 0 {
			t.Errorf("sliding_window admits %d early in the next second, want 0: five in all", got)
		}
		// A token every 200 ms since the five were taken.
		least := int(early.From.Sub(late.To) / (200 * time.Millisecond))
		most := int(early.To.Sub(late.From) / (200 * time.Millisecond))
		if got := early.Admitted["tb"]; got < least || got > most {
			t.Errorf("token_bucket admits %d early in the next second, want its refill: %d to %d", got, least, most)
		}
		return
	}
	t.Fatal("in 58 seconds no ten requests fell around a boundary")
}

// The same story by a clock that stands still: to the microsecond, and on any machine.
func TestTheBoundaryIsToTheMicrosecond(t *testing.T) {
	r, clock := rig.StartRedisWithClock(t)
	s := rig.StartSite(t, rig.SiteConf{Limits: fivePerSecond, Server: rig.ClosedServer, Redis: r,
		Serve: []string{"--refusals-max=0"}}) // what is remembered lasts by another clock
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
		clock.Stop(t, second.Add(c.at))
		if got := fmt.Sprint(s.FiveOfEach(t).Admitted); got != c.want {
			t.Errorf("after %v: %s, want %s", c.at, got, c.want)
		}
	}
}

// A leaky bucket holds its answers, through nginx too: five at once leave one after the other, and no
// hold becomes a 504, however many wait.
func TestALeakyBucketHoldsThroughNginx(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.slow]
		key       = ["zone"]
		missing   = "share"
		algorithm = "leaky_bucket"
		rate      = "10/s"
		burst     = 4`})
	start := s.RedisTime(t)
	statuses := make(chan int, 5)
	for range cap(statuses) {
		go func() { statuses <- s.Send(t, "GET /", "").Status }()
	}
	for range cap(statuses) {
		if got := <-statuses; got != 200 {
			t.Errorf("%d, want 200", got)
		}
	}
	// The fifth is held until the four before it have drained, 100 ms each; the bucket has all of them.
	if got := s.RedisTime(t).Sub(start); got < 400*time.Millisecond {
		t.Errorf("the last of five left after %v, want 400 ms or more", got)
	}
}
