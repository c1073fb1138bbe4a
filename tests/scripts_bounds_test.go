package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

func TestABadArgumentIsNamedAndNothingIsWritten(t *testing.T) {
	s := startScripts(t)
	bad := func(want, script, keys, args string) {
		t.Helper()
		var argv []any
		for arg := range strings.FieldsSeq(args) {
			argv = append(argv, strings.ReplaceAll(strings.ReplaceAll(arg, "_", " "), `\n`, "\n"))
		}
		if got := s.run(script, strings.Fields(keys), argv...); got != want {
			t.Errorf("%s %s , %s\ngot  %s\nwant %s", script, keys, args, got, want)
		}
		if n := s.DBSize(context.Background()).Val(); n != 0 {
			t.Fatalf("%s %s , %s: %d keys written, want none", script, keys, args, n)
		}
	}
	for name := range strings.FieldsSeq("token_bucket leaky_bucket fixed_window sliding_window sliding_counter") {
		extra, most := "3", map[string]string{"sliding_window": "10000", "sliding_counter": "9007199254740"}[name]
		if most == "" {
			most = "9007199254740991"
		}
		cost := map[string]string{"sliding_window": "100"}[name]
		if cost == "" {
			cost = "9007199254740991"
		}
		if name == "sliding_window" {
			extra = "0"
		}
		with := func(args string) string { return strings.ReplaceAll(args, "EXTRA", extra) }
		bad("ERR 0 keys, want 1", name, "", with("5 1000 EXTRA 1"))
		bad("ERR 2 keys, want 1", name, "a b", with("5 1000 EXTRA 1"))
		bad("ERR ARGV[1]: limit = 0, want 1 to "+most, name, "a", with("0 1000 EXTRA 1"))
		bad(`ERR ARGV[1]: limit = "-5", want 1 to `+most, name, "a", with("-5 1000 EXTRA 1"))
		bad("ERR ARGV[1]: limit = 9007199254740992, want 1 to "+most, name, "a", with("9007199254740992 1000 EXTRA 1"))
		bad("ERR ARGV[2]: window_us = 999, want 1000 to 31622400000000", name, "a", with("5 999 EXTRA 1"))
		bad("ERR ARGV[2]: window_us = 31622400000001, want 1000 to 31622400000000", name, "a", with("5 31622400000001 EXTRA 1"))
		bad(`ERR ARGV[2]: window_us = "1s", want 1000 to 31622400000000`, name, "a", with("5 1s EXTRA 1"))
		bad("ERR ARGV[4]: cost is missing, want 1 to "+cost, name, "a", with("5 1000 EXTRA"))
		bad("ERR ARGV[4]: cost = 0, want 1 to "+cost, name, "a", with("5 1000 EXTRA 0"))
		bad(`ERR ARGV[4]: cost = "-5", want 1 to `+cost, name, "a", with("5 1000 EXTRA -5"))
		bad(`ERR ARGV[4]: cost = "1.5", want 1 to `+cost, name, "a", with("5 1000 EXTRA 1.5"))
		bad(`ERR ARGV[4]: cost = "1e3", want 1 to `+cost, name, "a", with("5 1000 EXTRA 1e3"))
		bad(`ERR ARGV[4]: cost = "abc", want 1 to `+cost, name, "a", with("5 1000 EXTRA abc"))
		bad(`ERR ARGV[4]: cost = " 1", want 1 to `+cost, name, "a", with("5 1000 EXTRA _1"))
		bad(`ERR ARGV[4]: cost = "1??ERR??", want 1 to `+cost, name, "a", with(`5 1000 EXTRA 1\n\nERRé`))
		bad("ERR ARGV[4]: cost = 9007199254740992, want 1 to "+cost, name, "a", with("5 1000 EXTRA 9007199254740992"))
		bad(`ERR ARGV[5]: now_us = "-1", want 0 to 9007199254740991`, name, "a", with("5 1000 EXTRA 1 -1"))
		bad("ERR ARGV[6]: peek = 2, want 0 to 1", name, "a", with("5 1000 EXTRA 1 0 2"))
		bad("ERR 7 arguments, want 4 to 6", name, "a", with("5 1000 EXTRA 1 0 0 0"))
	}
	bad("ERR ARGV[3]: burst = 0, want 1 to 9007199254740", "token_bucket", "a", "1 1000 0 1")
	bad("ERR ARGV[3]: burst = 9007199254741, want 1 to 9007199254740", "token_bucket", "a", "1 1000 9007199254741 1")
	bad("ERR ARGV[3]: burst = 9007199254740993, want 1 to 9007199254740992", "token_bucket", "a", "1000 1000 9007199254740993 1")
	bad("ERR ARGV[3]: burst = 9007199254740, want 0 to 9007199254739", "leaky_bucket", "a", "1 1000 9007199254740 1")
	bad("ERR ARGV[3]: offset_us = 1000, want 0 to 999", "fixed_window", "a", "1 1000 1000 1")
	bad("ERR ARGV[3]: offset_us = 1000, want 0 to 999", "sliding_counter", "a", "1 1000 1000 1")
	bad("ERR ARGV[3]: burst_or_offset = 1, want 0 to 0", "sliding_window", "a", "1 1000 1 1")
	bad("ERR ARGV[1]: limit = 10001, want 1 to 10000", "sliding_window", "a", "10001 1000 0 1")
	bad("ERR ARGV[4]: cost = 101, want 1 to 100", "sliding_window", "a", "10000 1000 0 101")
	bad("ERR ARGV[1]: limit = 9007199255, want 1 to 9007199254", "sliding_counter", "a", "9007199255 1000000 0 1")

	// take: a good request before the bad one is not charged either.
	take := func(want, keys, args string) {
		t.Helper()
		bad(want, "take", "good "+keys, "0 1 3 5 1000 0 1 "+args)
	}
	take(`ERR ARGV[8]: checks = "x", want 1 to 1, or negative for a peek`, "a", "x")
	take("ERR ARGV[8]: checks = 0, want 1 to 1, or negative for a peek", "a", "0")
	take("ERR ARGV[8]: checks = 2, want 1 to 1, or negative for a peek", "a", "2 3 5 1000 0 1 3 5 1000 0 1")
	take("ERR ARGV[9]: algorithm is missing, want 1 to 5, or negative for a shadow", "a", "1")
	take("ERR ARGV[9]: algorithm = 6, want 1 to 5, or negative for a shadow", "a", "1 6 5 1000 0 1")
	take("ERR ARGV[9]: algorithm = -0, want 1 to 5, or negative for a shadow", "a", "-1 -0 5 1000 0 1")
	take("ERR ARGV[10]: n = 0, want 1 to 9007199254740991", "a", "1 1 0 1000 5000 1")
	take("ERR ARGV[11]: w = 0, want 1 to 9007199254740991", "a", "1 1 1 0 5000 1")
	take("ERR ARGV[12]: capacity = 999, want 1000 to 9007199254740992", "a", "1 1 1 1000 999 1")
	take("ERR ARGV[12]: capacity = 9007199254740993, want 1000 to 9007199254740992", "a", "1 -2 1 1000 9007199254740993 1")
	take("ERR ARGV[13]: cost = 0, want 1 to 9007199254740991", "a", "1 1 1 1000 5000 0")
	take("ERR ARGV[11]: window_us = 999, want 1000 to 31622400000000", "a", "1 3 5 999 0 1")
	take("ERR ARGV[10]: limit = 10001, want 1 to 10000", "a", "1 4 10001 1000 0 1")
	take("ERR ARGV[12]: offset_us = 1, want 0 to 0", "a", "1 4 10000 1000 1 1")
	take("ERR ARGV[13]: cost = 101, want 1 to 100", "a", "1 4 10000 1000 0 101")
	take("ERR ARGV[10]: limit = 9007199255, want 1 to 9007199254", "a", "1 -5 9007199255 1000000 0 1")
	take("ERR ARGV[12]: offset_us = 1000, want 0 to 999", "a", "1 5 5 1000 1000 1")
	take("ERR ARGV[13]: cost is missing, want 1 to 9007199254740991", "a", "1 5 5 1000 0")
	take("ERR 3 keys, want 2", "a b", "1 5 5 1000 0 1")
	take("ERR 1 keys, want 2", "", "1 5 5 1000 0 1")
	take("ERR KEYS[3]: its request names this key twice", "a a", "2 5 5 1000 0 1 3 5 1000 0 1")
	bad("ERR ARGV[1]: now_us is missing, want 0 to 9007199254740991", "take", "", "")
	bad(`ERR ARGV[1]: now_us = "now", want 0 to 9007199254740991`, "take", "a", "now 1 3 5 1000 0 1")
}

func TestLargeNumbersStayDigits(t *testing.T) {
	s := startScripts(t)
	charge := func(script, args, answer, state string) {
		t.Helper()
		s.FlushDB(context.Background())
		var argv []any
		for arg := range strings.FieldsSeq(args) {
			argv = append(argv, arg)
		}
		if got := s.run(script, []string{"k"}, argv...); got != answer {
			t.Errorf("%s %s: answer is %s, want %s", script, args, got, answer)
		}
		if got := s.state("k"); got != state {
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
	s := startScripts(t)
	ctx := context.Background()
	checks := oneOfEach(t)
	now := fmt.Sprint(scriptsNow)
	number := fmt.Sprint(scriptsNow / 60000000)
	fresh := "1 3 0 0"
	reads := func(i int, state, answer string) {
		t.Helper()
		c := checks[i]
		s.Set(ctx, string(c.Key), state, 0)
		if got := s.single(scriptsNow, c, true); got != answer {
			t.Errorf("%s of %.60q reads %s, want %s", c.Limit.Name, state, got, answer)
		}
		if got := s.take(scriptsNow, true, c); got != "1 "+answer {
			t.Errorf("take: %s of %.60q reads %s, want %s", c.Limit.Name, state, got, "1 "+answer)
		}
		if answer != fresh {
			return
		}
		s.single(scriptsNow, c, false)
		over := s.state(string(c.Key))
		s.Del(ctx, string(c.Key))
		s.single(scriptsNow, c, false)
		if first := s.state(string(c.Key)); over != first {
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
		number + ":60000000:0:1\n",
	} {
		reads(2, state, fresh)
	}
	reads(4, number+":60000000:0:0:1", "1 2 0 120000000")
	reads(4, number+":60000000:0:1:0", "1 2 0 60000000")
	for _, state := range []string{
		"", "x", number + ":60000000:0:1", number + ":60000000:0:0:0", number + ":60000000:0:-1:1",
		number + ":60000000:0:9007199254740993:1", number + ":60000000:0:1:9007199254740993",
		number + ":60000000:1:1:1", number + ":30000000:0:1:1", "-" + number + ":60000000:0:1:1",
		number + ":60000000:0:1:1:1", number + ":60000000:0:" + strings.Repeat("9", 400) + ":1",
	} {
		reads(4, state, fresh)
	}
}
