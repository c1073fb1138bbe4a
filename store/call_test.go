package store

import (
	"fmt"
	"testing"

	"authz/limits"
)

// C097: any other length or type than the script's is an error, and never an answer.
func TestAReplyThatIsNotTheScriptsIsMalformed(t *testing.T) {
	enforced, shadow := limitOf(limits.FixedWindow), limitOf(limits.FixedWindow)
	shadow.Shadow = true
	two := []limits.Check{checkOf(enforced, "a"), checkOf(shadow, "b")}
	read := func(want string, reply any) {
		t.Helper()
		dst, err := readReply(reply, two, []Result{{Remaining: 7}})
		got := fmt.Sprint(dst[1:], " ", Kind(err), " ", err)
		if got != want || dst[0].Remaining != 7 {
			t.Errorf("%v\ngot  %s\nwant %s", reply, got, want)
		}
	}
	flat := func(n ...int64) (reply []any) {
		for _, v := range n {
			reply = append(reply, v)
		}
		return reply
	}
	read("[{true 4 0 9} {true 3 8 7}]  <nil>", flat(1, 1, 4, 0, 9, 1, 3, 8, 7))
	read("[{false 0 9 9} {true 3 0 7}]  <nil>", flat(0, 0, 0, 9, 9, 1, 3, 0, 7))
	read("[{true 4 0 9} {false 0 -1 7}]  <nil>", flat(1, 1, 4, 0, 9, 0, 0, -1, 7)) // the shadow refuses nobody
	bad := func(why string, reply any) {
		t.Helper()
		read("[] malformed Redis sent no reply of the script take: "+why, reply)
	}
	bad("<nil>, want numbers", nil)
	bad("string, want numbers", "OK")
	bad("int64, want numbers", int64(1))
	bad("0 numbers, want 9", flat())
	bad("5 numbers, want 9", flat(1, 1, 4, 0, 9))
	bad("10 numbers, want 9", flat(1, 1, 4, 0, 9, 1, 3, 8, 7, 0))
	bad("status 2", flat(2, 1, 4, 0, 9, 1, 3, 8, 7))
	bad("status -2", flat(-2, 1, 4, 0, 9, 1, 3, 8, 7))
	bad("status 1", []any{"1", int64(1), int64(4), int64(0), int64(9), int64(1), int64(3), int64(8), int64(7)})
	bad("string, want a number", []any{int64(1), int64(1), "4", int64(0), int64(9), int64(1), int64(3), int64(8), int64(7)})
	bad("<nil>, want a number", []any{int64(1), int64(1), int64(4), int64(0), int64(9), int64(1), int64(3), int64(8), nil})
	bad("row [2 4 0 9]", flat(1, 2, 4, 0, 9, 1, 3, 8, 7))
	bad("row [1 -1 0 9]", flat(1, 1, -1, 0, 9, 1, 3, 8, 7))
	bad("row [1 4 -2 9]", flat(1, 1, 4, -2, 9, 1, 3, 8, 7))
	bad("row [1 4 0 -9]", flat(1, 1, 4, 0, -9, 1, 3, 8, 7))
	bad("status 1, want 0 by the rows", flat(1, 0, 0, 9, 9, 1, 3, 8, 7))
	bad("status 0, want 1 by the rows", flat(0, 1, 4, 0, 9, 0, 0, 8, 7))
	read("[] wrongtype WRONGTYPE a key of this request holds another Redis type: delete it, or choose another --redis-prefix",
		flat(-1, 0, 0, 0, 0, 0, 0, 0, 0))
}

func TestACallIsWrittenAsTheScriptReadsIt(t *testing.T) {
	leaky, counter := limitOf(limits.LeakyBucket), limitOf(limits.SlidingCounter)
	counter.Shadow, counter.Rate.OffsetUS = true, 17
	var c call
	for range 2 { // the second time in used memory
		c.begin(1e15)
		c.add([]limits.Check{checkOf(leaky, "k1"), checkOf(counter, "k2")}, false)
		c.add([]limits.Check{checkOf(leaky, "k3")}, true)
		got := ""
		for _, a := range c.args("evalsha", "abc") {
			switch a := a.(type) {
			case string:
				got += a + " "
			case *string:
				got += *a + " "
			case *int:
				got += fmt.Sprint(*a, " ")
			case *int64:
				got += fmt.Sprint(*a, " ")
			case *keyArg:
				got += string(*a) + " "
			}
		}
		want := "evalsha abc 3 k1 k2 k3 1000000000000000 " +
			"2 2 1 12000000 72000000 1 -5 5 60000000 17 1 -1 2 1 12000000 72000000 1 "
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func BenchmarkCallArguments(b *testing.B) {
	checks := allAlgorithms()[:3]
	var c call
	b.ReportAllocs()
	for b.Loop() {
		c.begin(0)
		c.add(checks, false)
		c.args("evalsha", "abc")
	}
}
