package redisstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"authz/internal/testkit"
	"authz/limits"
)

// waiting is lanes that are all busy, the calls that hold them, and a queue of n requests that have
// an hour.
func waiting(t *testing.T, n int) (l *lanes, calls []*call, queue []*pending) {
	t.Helper()
	l = new(lanes)
	l.init()
	t.Cleanup(func() { l.watch.Stop() })
	for len(queue) < n {
		p := pendingOf(false, testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "k"))
		p.deadline = l.now() + time.Hour
		p.half = 30 * time.Minute
		free, err := l.enter(p)
		if err != nil {
			t.Fatal(err)
		}
		if free {
			c := new(call)
			c.add(p)
			l.begin(c)
			calls = append(calls, c)
		} else {
			queue = append(queue, p)
		}
	}
	return l, calls, queue
}

// callOf is the call that p leads.
func (l *lanes) callOf(p *pending) *call {
	c := new(call)
	c.add(p)
	l.gather(c)
	return c
}

// told is the signals that have come.
func told(queue []*pending) (signals []string) {
	for _, p := range queue {
		select {
		case s := <-p.wake:
			signals = append(signals, [...]string{answered: "answered", late: "late", crowded: "crowded", lead: "lead"}[s])
		default:
			signals = append(signals, "-")
		}
	}
	return signals
}

// Whoever has the latest deadline leads: usually the youngest.
func TestWhoWaitsSharesTheNextCall(t *testing.T) {
	l, calls, queue := waiting(t, 3)
	is := func(want string) {
		t.Helper()
		if got := strings.Join(told(queue), " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	is("- - -")
	l.leave(calls[0])
	is("- - lead")
	next := l.callOf(queue[2])
	if want := []*pending{queue[2], queue[0], queue[1]}; !slices.Equal(next.members, want) {
		t.Errorf("the call has %d members, want the leader and those that came before it", len(next.members))
	}
	l.leave(calls[1])
	l.leave(next)
	is("answered answered -")
	if l.busy != 0 || len(l.queue) != 0 || len(l.flying) != 0 {
		t.Errorf("%d lanes are busy, %d wait, %d calls are watched; want none", l.busy, len(l.queue), len(l.flying))
	}
}

// A few requests have two lanes, a crowd has one, and more than a call can take have four.
func TestLanesOpenAndClose(t *testing.T) {
	l, calls, _ := waiting(t, 1)
	is := func(want string) {
		t.Helper()
		if got := fmt.Sprint(l.open(), " open ", l.busy, " busy"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	is("2 open 2 busy")
	l.size = 2 * crowd // as if calls of a crowd had returned
	is("1 open 2 busy")
	l.leave(calls[0])
	is("1 open 1 busy") // the lane is closed, though somebody waits
	l.leave(calls[1])
	is("1 open 1 busy") // that one leads now

	l, calls, _ = waiting(t, maxBatch)
	is("4 open 2 busy")
	late := pendingOf(false)
	late.deadline = l.now() + 2*time.Hour
	for i := range 2 {
		if free, err := l.enter(late); !free || err != nil {
			t.Errorf("lane %d: %v %v, want a free one", i+3, free, err)
		}
	}
	is("4 open 4 busy")
	l.callOf(late)
	is("2 open 4 busy")
	l.leave(calls[1])
	is("2 open 3 busy")
}

func TestTheLatestDeadlineLeads(t *testing.T) {
	l, calls, queue := waiting(t, 3)
	queue[1].deadline = queue[2].deadline + time.Second
	l.leave(calls[0])
	if got := fmt.Sprint(told(queue)); got != "[- lead -]" {
		t.Errorf("got %s, want [- lead -]", got)
	}
	// Who has more time than the sender is not in its call: it would lose what is more.
	soon := new(call)
	soon.add(pendingOf(false))
	soon.members[0].deadline = queue[0].deadline
	queue[2].deadline = queue[0].deadline + 2*sameTime
	l.gather(soon)
	if len(soon.members) != 2 || soon.members[1] != queue[0] || len(l.queue) != 1 {
		t.Errorf("the call has %d members and %d wait, want 2 and 1", len(soon.members), len(l.queue))
	}
}

// Who has waited for half of its time is left to its deadline, and the lane is for those that have more.
func TestWhoHasWaitedTooLongIsNotSent(t *testing.T) {
	l, calls, queue := waiting(t, 4)
	queue[1].half, queue[3].half = 2*time.Hour, 2*time.Hour
	l.leave(calls[0])
	if got := fmt.Sprint(told(queue)); got != "[- - lead -]" {
		t.Errorf("got %s, want [- - lead -]", got)
	}
	next := l.callOf(queue[2])
	if len(next.members) != 2 || next.members[1] != queue[0] || len(l.queue) != 2 {
		t.Errorf("the call has %d members and %d wait, want 2 and 2", len(next.members), len(l.queue))
	}
	l.leave(calls[1])
	if l.busy != 1 {
		t.Errorf("%d lanes are busy, want 1: nobody is left who could send", l.busy)
	}
}

// A request with more checks than a call should have goes alone, and holds nobody up.
func TestACallIsBounded(t *testing.T) {
	l, calls, queue := waiting(t, 2*maxBatch)
	few := []limits.Check{testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "k")}
	queue[1].begin(slices.Repeat(few, maxWeight+1), false)
	queue[5].begin(slices.Repeat(few, maxWeight-3), false)
	lane, sizes := calls[0], ""
	l.busy = 1 // the others' lanes are closed
	for range 5 {
		l.leave(lane)
		for i, s := range told(queue) {
			if s == "lead" {
				lane = l.callOf(queue[i])
			}
		}
		sizes += fmt.Sprint(len(lane.members), ":", lane.keys, " ")
	}
	if want := "1:1 1:513 4:512 128:128 122:122 "; sizes != want {
		t.Errorf("requests:keys of the calls are %s, want %s", sizes, want)
	}
}

// A unit of cost in a log weighs as much as a check, so that a few heavy requests fill a call.
func TestACallIsBoundedByItsWeight(t *testing.T) {
	l, calls, queue := waiting(t, 12)
	heavy := testkit.CheckOf(testkit.LimitOf(limits.SlidingWindow), "k")
	heavy.Limit.Rate.Count, heavy.Cost = 10_000, 100
	for i, p := range queue {
		switch {
		case i < 4:
			p.begin(slices.Repeat([]limits.Check{heavy}, 4), false) // 404
		case i < 9:
			p.begin([]limits.Check{heavy}, false) // 101
		}
	}
	lane, sizes := calls[0], ""
	l.busy = 1
	for range 5 {
		l.leave(lane)
		for i, s := range told(queue) {
			if s == "lead" {
				lane = l.callOf(queue[i])
			}
		}
		sizes += fmt.Sprint(len(lane.members), ":", lane.weight, " ")
	}
	if want := "1:404 1:404 1:404 2:505 7:407 "; sizes != want {
		t.Errorf("requests:weight of the calls are %s, want %s", sizes, want)
	}
}

func TestAFullQueueIsAnErrorOfItsOwn(t *testing.T) {
	l, _, _ := waiting(t, maxQueue)
	_, err := l.enter(pendingOf(false))
	if Kind(err) != "queue" || !ClientCanCause(err) || err.Error() != "8192 requests wait for Redis, no more can" {
		t.Errorf("%v of kind %q, a client can cause it: %v; want queue, true", err, Kind(err), ClientCanCause(err))
	}
}

// Each leaves at its own deadline, from the queue or from a call; the others stay.
func TestWhoWaitsLeavesAtItsDeadline(t *testing.T) {
	l, calls, queue := waiting(t, 4)
	l.leave(calls[0])
	if got := fmt.Sprint(told(queue)); got != "[- - - lead]" {
		t.Fatal(got)
	}
	flying := l.callOf(queue[3])
	for _, p := range queue[:2] {
		p.deadline = l.now()
	}
	queued := pendingOf(false)
	queued.deadline = l.now()
	if _, err := l.enter(queued); err != nil {
		t.Fatal(err)
	}
	if s := <-queued.wake; s != late || !errors.Is(errLate, context.DeadlineExceeded) || Kind(errLate) != "timeout" {
		t.Errorf("told %d, want that it is late", s)
	}
	l.expire()
	if got := fmt.Sprint(told(queue)); got != "[late late - -]" {
		t.Errorf("got %s, want [late late - -]", got)
	}
	l.leave(flying)
	if got := fmt.Sprint(told(queue)); got != "[- - answered -]" {
		t.Errorf("got %s, want [- - answered -]: who has left is told nothing more", got)
	}
}

// A call is late, and Redis has answered a later one: it lives.
func TestACallThatOthersOvertookIsOneOfACrowd(t *testing.T) {
	l, calls, queue := waiting(t, 2)
	calls[0].end(nil)
	l.leave(calls[0])
	slow := l.callOf(queue[1])
	calls[1].end(nil)
	l.leave(calls[1])
	slow.end(&kindError{"timeout", context.DeadlineExceeded})
	l.leave(slow)
	if got := Kind(queue[0].err) + " " + Kind(queue[1].err); got != "queue queue" {
		t.Errorf("got %s, want queue queue", got)
	}
}

// Whoever is late in a crowd, and a moment after it, cannot tell a Redis that has too much to do from one that hangs.
// Clients can bring that about, and must not switch a limit off.
func TestWhoIsLateInACrowdDoesNotSayThatRedisHangs(t *testing.T) {
	is := func(want string, end error) {
		t.Helper()
		l, calls, queue := waiting(t, 4)
		expire := func(late ...*pending) string {
			for _, p := range late {
				p.deadline = l.now()
			}
			l.expire()
			return strings.Join(told(queue), " ")
		}
		for range crowd { // who has time
			p := pendingOf(false)
			p.deadline = l.now() + time.Minute
			if free, err := l.enter(p); free || err != nil {
				t.Fatalf("%v %v, want to wait", free, err)
			}
		}
		calls[0].end(end)
		l.leave(calls[0])
		younger := pendingOf(false)
		younger.deadline = l.now() + time.Hour
		if free, err := l.enter(younger); free || err != nil {
			t.Fatalf("%v %v, want to wait", free, err)
		}
		queue = append(queue, younger)
		got := expire(queue[0], younger) // before they are sent
		next := l.callOf(queue[3])
		got += ", " + expire(queue[1]) // under way
		for _, c := range []*call{next, calls[1]} {
			c.end(&kindError{"timeout", context.DeadlineExceeded})
			l.leave(c)
		}
		got += fmt.Sprintf(", %s %s, %s", Kind(queue[2].err), Kind(queue[3].err), Kind(calls[1].members[0].err))
		if got != want {
			t.Errorf("after %v:\ngot  %s\nwant %s", end, got, want)
		}
	}
	// The fifth has half a moment only.
	want := "crowded - - lead late, - crowded - - -, queue queue, queue"
	is(want, nil)
	is(want, &kindError{"oom", replyError("OOM command not allowed when used memory > 'maxmemory'.")})
	is(want, &kindError{"timeout", context.DeadlineExceeded})
	is(want, &kindError{"network", io.EOF})
}

// Where few wait, silence is Redis's own.
func TestAFewThatAreLateSayThatRedisHangs(t *testing.T) {
	l, calls, _ := waiting(t, crowd-fewLanes)
	for _, c := range calls {
		c.members[0].deadline = l.now()
	}
	l.expire()
	for _, c := range calls {
		c.end(&kindError{"timeout", context.DeadlineExceeded})
		l.leave(c)
		if kind := Kind(c.members[0].err); kind != "timeout" {
			t.Errorf("kind %s, want timeout", kind)
		}
	}
}
