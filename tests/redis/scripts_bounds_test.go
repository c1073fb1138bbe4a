package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

func TestLargeNumbersStayDigits(t *testing.T) {
	s := rig.StartScripts(t)
	charge := func(script, args, answer, state string) {
		t.Helper()
		s.FlushDB(context.Background())
		var argv []any
		for arg := range strings.FieldsSeq(args) {
			argv = append(argv, arg)
		}
		if got := s.Run(script, []string{"k"}, argv...); got != answer {
			t.Errorf("%s %s: answer is %s, want %s", script, args, got, answer)
		}
		if got := s.State("k"); got != state {
			t.Errorf("%s %s: state is %s, want %s", script, args, got, state)
		}
	}
	const most = "9007199254740991"
	// 1000 in 1000 us: a token a microsecond, and 2^53 of them.
	for number := range strings.FieldsSeq("100000000 100000000000000 1000000000000000 " + most) {
		charge("token_bucket", "1000 1000 9007199254740992 "+number+" "+number,
			fmt.Sprintf("1 %s 0 %s", minus(t, "9007199254740992", number), number), number+":1:"+number)
		charge("leaky_bucket", "1000 1000 9007199254740991 "+number+" "+number,
			fmt.Sprintf("1 %s 0 %s", minus(t, "9007199254740992", number), number), number+":1:"+number)
	}
	charge("token_bucket", "1 1000 9007199254740 9007199254740 "+most,
		"1 0 0 9007199254740000", "9007199254740000:1000:"+most)
	charge("fixed_window", most+" 1000 0 100000000 100000000", "1 9007199154740991 0 1000", "100000:1000:0:100000000")
	charge("fixed_window", most+" 1000 0 1000000000000000 1000000000000000", "1 8007199254740991 0 1000", "1000000000000:1000:0:1000000000000000")
	charge("fixed_window", most+" 1000 990 "+most+" "+most, "1 0 0 999", "9007199254740:1000:990:"+most)
	charge("fixed_window", "5 31622400000000 31622399999999 1 1000000000000000", "1 4 0 11916799999999", "30:31622400000000:31622399999999:1")
	charge("sliding_counter", "9007199254740 1000 0 9007199254740 "+most, "1 0 0 1009", "9007199254740:1000:0:0:9007199254740")
	charge("sliding_counter", "284 31622400000000 0 284 1000000000000000", "1 0 0 43539200000000", "31:31622400000000:0:0:284")
	charge("sliding_window", "5 1000 0 2 "+most, "1 3 0 1000", "[{9.007199254740991e+15 "+most+":0} {9.007199254740991e+15 "+most+":1}]")
	charge("sliding_window", "5 1000 0 1 100000000000000", "1 4 0 1000", "[{1e+14 100000000000000:0}]")
}

func minus(t *testing.T, a, b string) string {
	t.Helper()
	var x, y int64
	if _, err := fmt.Sscan(a+" "+b, &x, &y); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(x - y)
}

func TestWhatDoesNotParseReadsAsNeverUsed(t *testing.T) {
	s := rig.StartScripts(t)
	ctx := context.Background()
	checks := oneOfEach(t)
	now := fmt.Sprint(rig.ScriptsNow)
	number, next := fmt.Sprint(rig.ScriptsNow/60000000), fmt.Sprint(rig.ScriptsNow/60000000+1)
	fresh := "1 3 0 0"
	reads := func(i int, state, answer string) {
		t.Helper()
		c := checks[i]
		s.Set(ctx, string(c.Key), state, 0)
		if got := s.Single(rig.ScriptsNow, c, true); got != answer {
			t.Errorf("%s of %.60q reads %s, want %s", c.Limit.Name, state, got, answer)
		}
		if got := s.Take(rig.ScriptsNow, true, c); got != "1 "+answer {
			t.Errorf("take: %s of %.60q reads %s, want %s", c.Limit.Name, state, got, "1 "+answer)
		}
		if answer != fresh {
			return
		}
		s.Single(rig.ScriptsNow, c, false)
		over := s.State(string(c.Key))
		s.Del(ctx, string(c.Key))
		s.Single(rig.ScriptsNow, c, false)
		if first := s.State(string(c.Key)); over != first {
			t.Errorf("%s of %.60q is charged to %s, want %s", c.Limit.Name, state, over, first)
		}
	}
	for i := range 2 { // the buckets: n = 1 per w = 20000000, capacity 60000000
		reads(i, "20000000:20000000:"+now, "1 2 0 20000000")
		reads(i, "0020000000:20000000:"+now, "1 2 0 20000000")
		reads(i, "1:1:"+now, "1 2 0 20000000")
		for _, state := range []string{
			"", "x", "1", "1:1", "::", "20000000:0:" + now, "0:20000000:" + now,
			"-20000000:20000000:" + now, "20000000:-20000000:" + now, "20000000:20000000:-5",
			"2e7:20000000:" + now, "20000000.5:20000000:" + now, " 20000000:20000000:" + now,
			"20000000:20000000:" + now + "\n", "20000000:20000000:" + now + ":1",
			"9007199254740993:20000000:" + now, "20000000:9007199254740993:" + now,
			"20000000:20000000:9007199254740993", strings.Repeat("9", 400) + ":1:" + now,
			"1:" + strings.Repeat("9", 400) + ":" + now, "20000000:20000000:" + strings.Repeat("9", 400),
			"20000000:20000000:" + strings.Repeat("9", 100000) + "x", "nan:1:" + now, "inf:1:" + now,
		} {
			reads(i, state, fresh)
		}
	}
	reads(2, number+":60000000:0:1", "1 2 0 60000000")
	for _, state := range []string{
		"", "x", "1:2:3", number + ":60000000:0:0", number + ":60000000:0:-1", number + ":60000000:0:1:1",
		number + ":60000000:0:9007199254740993", number + ":60000000:1:1", number + ":30000000:0:1",
		"-" + number + ":60000000:0:1", number + "0:60000000:0:1", number + ":60000000:0:" + strings.Repeat("9", 400),
		number + ":60000000:0:1\n", next + ":60000000:0:0", next + "0:60000000:0:1",
	} {
		reads(2, state, fresh)
	}
	reads(4, number+":60000000:0:0:1", "1 2 0 120000000")
	reads(4, number+":60000000:0:1:0", "1 2 0 60000000")
	for _, state := range []string{
		"", "x", number + ":60000000:0:1", number + ":60000000:0:0:0", number + ":60000000:0:-1:1",
		number + ":60000000:0:9007199254740993:1", number + ":60000000:0:1:9007199254740993",
		number + ":60000000:1:1:1", number + ":30000000:0:1:1", "-" + number + ":60000000:0:1:1",
		next + ":60000000:0:0:0", next + "0:60000000:0:1:1", number + ":60000000:0:1:1:1", number + ":60000000:0:" + strings.Repeat("9", 400) + ":1",
	} {
		reads(4, state, fresh)
	}
}
