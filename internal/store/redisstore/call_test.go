package redisstore

import (
	"fmt"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/internal/testkit"
	"authz/limits"
	"authz/redisscripts"
)

// pendingOf is a request as Take makes it, over checks that go away at once.
func pendingOf(peek bool, checks ...limits.Check) *pending {
	p := newPending().(*pending)
	for range 2 { // the second time in used memory
		p.begin(checks, peek)
	}
	for i := range checks {
		clear(checks[i].Key)
	}
	return p
}

// twoMembers is a call with a request of two checks, the second a shadow, and one of one check.
func twoMembers() (c *call, first, second []limits.Check) {
	enforced, shadow := testkit.LimitOf(limits.FixedWindow), testkit.LimitOf(limits.FixedWindow)
	shadow.Shadow = true
	first = []limits.Check{testkit.CheckOf(enforced, "a"), testkit.CheckOf(shadow, "b")}
	second = []limits.Check{testkit.CheckOf(enforced, "c")}
	c = new(call)
	c.begin(0)
	c.add(pendingOf(false, first...))
	c.add(pendingOf(true, second...))
	c.args(false)
	return c, first, second
}

// send hands a reply to the call as go-redis does: a line, its end, until the call has enough.
func (c *call) send(reply string) {
	var err error
	for line := range strings.FieldsSeq(reply) {
		if _, err = c.Write([]byte(line)); err != nil {
			break
		}
		if _, err = c.Write([]byte("\r\n")); err != nil {
			break
		}
	}
	for _, p := range c.members {
		p.err = err
	}
}

func TestEachRequestGetsItsPartOfTheReply(t *testing.T) {
	read := func(reply, want string) {
		t.Helper()
		c, first, second := twoMembers()
		c.send(reply)
		got := ""
		for i, checks := range [][]limits.Check{first, second} {
			dst, err := c.members[i].results(checks, []store.Result{{Remaining: 7}})
			if dst[0].Remaining != 7 {
				t.Errorf("%s: what was in dst is gone", reply)
			}
			got += fmt.Sprint(dst[1:], " ", Kind(err), ", ")
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", reply, got, want)
		}
	}
	read("*14 :1 :1 :4 :0 :9 :1 :3 :8 :7 :1 :1 :4 :0 :9", "[{true 4 0 9 false} {true 3 8 7 false}] , [{true 4 0 9 false}] , ")
	read("*14 :0 :0 :0 :9 :9 :1 :3 :0 :7 :0 :0 :0 :-1 :9", "[{false 0 9 9 false} {true 3 0 7 false}] , [{false 0 -1 9 false}] , ")
	read("*14 :1 :1 :4 :0 :9 :0 :0 :-1 :7 :1 :1 :4 :0 :9", "[{true 4 0 9 false} {false 0 -1 7 false}] , [{true 4 0 9 false}] , ") // the shadow refuses nobody
	read("*14 :-1 :0 :0 :0 :0 :0 :0 :0 :0 :1 :1 :4 :0 :9", "[] wrongtype, [{true 4 0 9 false}] , ")
	read("*14 :1 :1 :-4 :0 :9 :1 :3 :8 :7 :1 :1 :4 :0 :9", "[] malformed, [{true 4 0 9 false}] , ")
	read("-OOM", "[] other, [] other, ")
	read("*14 :1 :1 :4 :0 :9 :1 :3 :8 $1", "[] malformed, [] malformed, ")
}

// C097: any other length or type than the script's is an error, and never an answer.
func TestAReplyThatIsNotTheScriptsIsMalformed(t *testing.T) {
	bad := func(why, reply string) {
		t.Helper()
		c, first, _ := twoMembers()
		c.send(reply)
		dst, err := c.members[0].results(first, nil)
		if got, want := fmt.Sprint(dst, Kind(err), " ", err), "[]malformed Redis sent no script's reply: "+why; got != want {
			t.Errorf("%s\ngot  %s\nwant %s", reply, got, want)
		}
	}
	bad(`"$-1", want numbers`, "$-1")
	bad(`"+OK", want numbers`, "+OK")
	bad(`":1", want numbers`, ":1")
	bad("-1 numbers, want 14", "*-1")
	bad("0 numbers, want 14", "*0")
	bad("9 numbers, want 14", "*9")
	bad("15 numbers, want 14", "*15")
	bad("x numbers, want 14", "*x")
	bad("status 2", "*14 :2")
	bad("status -2", "*14 :-2")
	bad(`"+1", want numbers`, "*14 +1")
	bad(`"$1", want numbers`, "*14 :1 :1 $1")
	bad(`"_", want numbers`, "*14 :1 :1 _")
	bad(`"-ERR", want numbers`, "*14 :1 :1 -ERR")
	bad(`"*2", want numbers`, "*14 :1 :1 *2")
	bad(`":1.5", want a number`, "*14 :1 :1 :1.5")
	bad(`":9223372036854775808", want a number`, "*14 :1 :1 :9223372036854775808")
	const rest = " :1 :1 :4 :0 :9"
	bad("row [2 4 0 9]", "*14 :1 :2 :4 :0 :9 :1 :3 :8 :7"+rest)
	bad("row [1 -1 0 9]", "*14 :1 :1 :-1 :0 :9 :1 :3 :8 :7"+rest)
	bad("row [1 4 -2 9]", "*14 :1 :1 :4 :-2 :9 :1 :3 :8 :7"+rest)
	bad("row [1 4 0 -9]", "*14 :1 :1 :4 :0 :-9 :1 :3 :8 :7"+rest)
	bad("status 1, want 0 by the rows", "*14 :1 :0 :0 :9 :9 :1 :3 :8 :7"+rest)
	bad("status 0, want 1 by the rows", "*14 :0 :1 :4 :0 :9 :0 :0 :8 :7"+rest)
	bad("0 numbers for a request, want 9", "")
}

// A single check goes to the script of its algorithm, which says no status.
func TestASingleCheckIsOfItsOwnScript(t *testing.T) {
	limit, nowUS := testkit.LimitOf(limits.SlidingCounter), int64(0)
	limit.Rate.OffsetUS = 17
	limit.Rate.Burst = 99 // which only buckets have
	peek, words := false, "5 60000000 17 3"
	is := func(reply, want string) {
		t.Helper()
		checks := []limits.Check{testkit.CheckOf(limit, "k")}
		checks[0].Cost = 3
		p := pendingOf(peek, checks...)
		checks[0].Key = []byte("k")
		var c call
		for _, whole := range []bool{false, true} {
			c.begin(nowUS)
			c.add(p)
			script := redisscripts.Named(limit.Algorithm.String())
			got, want := strings.Replace(wordsOf(c.args(whole)), script.Text, "TEXT", 1), "evalsha "+script.SHA+" 1 k "+words
			if whole {
				want = "eval TEXT 1 k " + words
			}
			if got != want {
				t.Errorf("%s\ngot  %s\nwant %s", script.Name, got, want)
			}
		}
		c.send(reply)
		dst, err := p.results(checks, nil)
		if got := fmt.Sprint(dst, " ", Kind(err)); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", reply, got, want)
		}
	}
	is("*4 :1 :4 :0 :9", "[{true 4 0 9 false}] ")
	is("*4 :0 :4 :8 :9", "[{false 4 8 9 false}] ")
	is("*4 :-1 :4 :8 :9", "[] malformed")
	is("*4 :2 :4 :8 :9", "[] malformed")
	is("*5 :1 :1 :4 :0 :9", "[] malformed")
	is("*3 :1 :4 :0", "[] malformed")
	limit.Shadow = true
	is("*4 :0 :4 :8 :9", "[{false 4 8 9 false}] ")
	nowUS, words = 7, "5 60000000 17 3 7"
	is("*4 :1 :4 :0 :9", "[{true 4 0 9 false}] ")
	peek, words = true, "5 60000000 17 3 7 1"
	is("*4 :1 :4 :0 :9", "[{true 4 0 9 false}] ")
	nowUS, words = 0, "5 60000000 17 3 0 1"
	is("*4 :0 :4 :8 :9", "[{false 4 8 9 false}] ")
	limit = testkit.LimitOf(limits.TokenBucket)
	words = fmt.Sprint("5 60000000 ", limit.Rate.Burst, " 3 0 1")
	is("*4 :1 :4 :0 :9", "[{true 4 0 9 false}] ")
	limit.Rate.Initial = 2
	words = fmt.Sprint("5 60000000 ", limit.Rate.Burst, "/2 3 0 1")
	is("*4 :1 :4 :0 :9", "[{true 4 0 9 false}] ")
}

// Whoever is told that a key is of another type is told what to do about it.
func TestAKeyOfAnotherTypeIsToldInTheSameWords(t *testing.T) {
	var c call
	c.begin(0)
	c.add(pendingOf(false, testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "k")))
	c.args(false)
	_, err := c.Write([]byte("-WRONGTYPE Operation against a key holding the wrong kind of value"))
	c.end(sorted(err))
	if got := c.members[0].err; got != error(errWrongType) {
		t.Errorf("got %v, want %v", got, errWrongType)
	}
}

// wordsOf is a command as text.
func wordsOf(words []any) string {
	var text []string
	for _, w := range words {
		switch w := w.(type) {
		case string:
			text = append(text, w)
		case *string:
			text = append(text, *w)
		case *int:
			text = append(text, fmt.Sprint(*w))
		case *int64:
			text = append(text, fmt.Sprint(*w))
		case int:
			text = append(text, fmt.Sprint(w))
		case *keyArg:
			text = append(text, string(*w))
		}
	}
	return strings.Join(text, " ")
}

// The keys are the call's own: those that Take was given are gone here. Numbers are written once.
func TestACallIsWrittenAsTheScriptReadsIt(t *testing.T) {
	leaky, counter := testkit.LimitOf(limits.LeakyBucket), testkit.LimitOf(limits.SlidingCounter)
	counter.Shadow, counter.Rate.OffsetUS = true, 17
	costly := testkit.CheckOf(leaky, "k4")
	costly.Cost = 3
	var c call
	for range 2 { // the second time in used memory
		costly.Key = []byte("k4")
		c.begin(1e15)
		c.add(pendingOf(false, testkit.CheckOf(leaky, "k1"), testkit.CheckOf(counter, "k2")))
		c.add(pendingOf(true, testkit.CheckOf(leaky, "k3")))
		c.add(pendingOf(false, costly, testkit.CheckOf(counter, "k5")))
		want := "evalsha " + take.SHA + " 5 k1 k2 k3 k4 k5 1000000000000000 " +
			"2 2 1 12000000 72000000 1 -5 5 60000000 17 1 -1 6 2 2 1 12000000 72000000 3 7"
		if got := wordsOf(c.args(false)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// However many different numbers there are, each check has its own.
func TestManyDifferentNumbersAreAllWritten(t *testing.T) {
	var c call
	c.begin(0)
	want := "evalsha " + take.SHA + " 60" + strings.Repeat(" k", 60) + " 0"
	for i := range 60 {
		check := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "k")
		check.Cost = int64(1 + i%30)
		c.add(pendingOf(false, check))
		if i >= 30 && i%30 < len(sameAs) {
			want += fmt.Sprint(" 1 ", 6+i%30)
		} else {
			want += fmt.Sprint(" 1 3 5 60000000 0 ", 1+i%30)
		}
	}
	if got := wordsOf(c.args(false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func BenchmarkCallArguments(b *testing.B) {
	checks := testkit.AllAlgorithms()[:3]
	p := pendingOf(false, checks...)
	var c call
	b.ReportAllocs()
	for b.Loop() {
		p.begin(checks, false)
		c.begin(0)
		c.add(p)
		c.args(false)
	}
}

func TestACheckOfAnUnknownAlgorithmIsABug(t *testing.T) {
	c := testkit.CheckOf(testkit.LimitOf(limits.FixedWindow), "x")
	c.Limit.Name, c.Limit.Algorithm = "x", limits.SlidingCounter+1
	defer func() {
		if got, want := recover(), "BUG: limit x has algorithm 6, which is not counted here"; got != want {
			t.Errorf("%v, want %s", got, want)
		}
	}()
	pendingOf(false, c)
}
