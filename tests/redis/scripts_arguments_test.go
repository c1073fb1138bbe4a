package redis

import (
	"strings"
	"testing"

	"authz/tests/rig"
)

func TestABadArgumentOfAnyAlgorithmIsNamedAndNothingIsWritten(t *testing.T) {
	bad := rig.StartScripts(t).Bad(t)
	// The largest limit in a window of 1000 us, and the largest cost.
	each := func(name, limit, extra, cost string) {
		t.Helper()
		with := func(args string) string { return strings.ReplaceAll(args, "EXTRA", extra) }
		bad("ERR 0 keys, want 1", name, "", with("5 1000 EXTRA 1"))
		bad("ERR 2 keys, want 1", name, "a b", with("5 1000 EXTRA 1"))
		bad("ERR ARGV[1]: limit = 0, want 1 to "+limit, name, "a", with("0 1000 EXTRA 1"))
		bad(`ERR ARGV[1]: limit = "-5", want 1 to `+limit, name, "a", with("-5 1000 EXTRA 1"))
		bad("ERR ARGV[1]: limit = 9007199254740992, want 1 to "+limit, name, "a", with("9007199254740992 1000 EXTRA 1"))
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
	each("token_bucket", "9007199254740991", "3", "9007199254740991")
	each("leaky_bucket", "9007199254740991", "3", "9007199254740991")
	each("fixed_window", "9007199254740991", "3", "9007199254740991")
	each("sliding_window", "10000", "0", "100")
	each("sliding_counter", "9007199254740", "3", "9007199254740991")
}

func TestABadArgumentOfOneAlgorithmIsNamed(t *testing.T) {
	bad := rig.StartScripts(t).Bad(t)
	bad("ERR ARGV[3]: burst = 0, want 1 to 9007199254740", "token_bucket", "a", "1 1000 0 1")
	bad("ERR ARGV[3]: burst = 9007199254741, want 1 to 9007199254740", "token_bucket", "a", "1 1000 9007199254741 1")
	bad("ERR ARGV[3]: burst = 9007199254740993, want 1 to 9007199254740992", "token_bucket", "a", "1000 1000 9007199254740993 1")
	bad("ERR ARGV[3]: burst = 9007199254740, want 0 to 9007199254739", "leaky_bucket", "a", "1 1000 9007199254740 1")
	bad("ERR ARGV[3]: offset_us = 1000, want 0 to 999", "fixed_window", "a", "1 1000 1000 1")
	bad("ERR ARGV[3]: offset_us = 1000, want 0 to 999", "sliding_counter", "a", "1 1000 1000 1")
	bad("ERR ARGV[3]: offset_us = 1, want 0", "sliding_window", "a", "1 1000 1 1")
	bad("ERR ARGV[1]: limit = 10001, want 1 to 10000", "sliding_window", "a", "10001 1000 0 1")
	bad("ERR ARGV[4]: cost = 101, want 1 to 100", "sliding_window", "a", "10000 1000 0 101")
	bad("ERR ARGV[1]: limit = 9007199255, want 1 to 9007199254", "sliding_counter", "a", "9007199255 1000000 0 1")
}

// The good request before the bad one is not charged either.
func TestABadArgumentOfTheLastRequestIsNamedAndNothingIsWritten(t *testing.T) {
	bad := rig.StartScripts(t).Bad(t)
	take := func(want, keys, args string) {
		t.Helper()
		bad(want, "take", "good "+keys, "0 1 3 5 1000 0 1 "+args)
	}
	take(`ERR ARGV[8]: checks = "x", want 1, or negative for a peek`, "a", "x")
	take("ERR ARGV[8]: checks = 0, want 1, or negative for a peek", "a", "0")
	take("ERR ARGV[8]: checks = 2, want 1, or negative for a peek", "a", "2 3 5 1000 0 1 3 5 1000 0 1")
	take(`ERR ARGV[8]: checks = "1.5", want 1, or negative for a peek`, "a", "1.5")
	take("ERR ARGV[8]: checks = -0, want 1, or negative for a peek", "a", "-0")
	take("ERR ARGV[9]: algorithm is missing, want 1 to 6, or negative for a shadow", "a", "1")
	take("ERR ARGV[9]: algorithm = 7, want 1 to 6, or negative for a shadow", "a", "1 7")
	take("ERR ARGV[9]: algorithm = 7, want 1 to 6, or negative for a shadow", "a", "1 7 5 1000 0 1")
	take("ERR ARGV[9]: algorithm = -6, want 1 to 5, or negative for a shadow", "a", "1 -6")
	take(`ERR ARGV[9]: algorithm = "6.0", want 1 to 6, or negative for a shadow`, "a", "1 6.0")
	take("ERR ARGV[9]: algorithm = -0, want 1 to 6, or negative for a shadow", "a", "-1 -0 5 1000 0 1")
	take("ERR ARGV[10]: n = 0, want 1 to 9007199254740991", "a", "1 1 0 1000 5000 1")
	take("ERR ARGV[11]: w = 0, want 1 to 9007199254740991", "a", "1 1 1 0 5000 1")
	take("ERR ARGV[12]: capacity = 999, want 1000 to 9007199254740992", "a", "1 1 1 1000 999 1")
	take("ERR ARGV[12]: capacity = 9007199254740993, want 1000 to 9007199254740992", "a", "1 -2 1 1000 9007199254740993 1")
	take("ERR ARGV[13]: cost = 0, want 1 to 9007199254740991", "a", "1 1 1 1000 5000 0")
	take(`ERR ARGV[10]: n = "1:1", want 1 to 9007199254740991`, "a", "1 1 1:1 1000 5000 1")
	take(`ERR ARGV[10]: n = "1:1", want 1 to 9007199254740991`, "a", "1 1 1:1 1000 5000")
	take("ERR ARGV[11]: window_us = 999, want 1000 to 31622400000000", "a", "1 3 5 999 0 1")
	take("ERR ARGV[11]: window_us = 31622400000001, want 1000 to 31622400000000", "a", "1 3 5 31622400000001 0 1")
	take("ERR ARGV[11]: w = 9007199254740992, want 1 to 9007199254740991", "a", "1 1 1 9007199254740992 9007199254740992 1")
	take("ERR ARGV[10]: limit = 10001, want 1 to 10000", "a", "1 4 10001 1000 0 1")
	take("ERR ARGV[12]: offset_us = 1, want 0", "a", "1 4 10000 1000 1 1")
	take("ERR ARGV[13]: cost = 101, want 1 to 100", "a", "1 4 10000 1000 0 101")
	take("ERR ARGV[10]: limit = 9007199255, want 1 to 9007199254", "a", "1 -5 9007199255 1000000 0 1")
	take("ERR ARGV[12]: offset_us = 1000, want 0 to 999", "a", "1 5 5 1000 1000 1")
	take("ERR ARGV[13]: cost is missing, want 1 to 9007199254740991", "a", "1 5 5 1000 0")
	take(`ERR ARGV[12]: offset_us = "-0", want 0 to 999`, "a", "1 5 5 1000 -0 1")
	take("ERR 3 keys, want 2", "a b", "1 5 5 1000 0 1")
	take("ERR 1 keys, want 2", "", "1 5 5 1000 0 1")
	take("ERR KEYS[3]: its request names this key twice", "a a", "2 5 5 1000 0 1 3 5 1000 0 1")
	take("ERR KEYS[3]: its request names this key twice", "a a", "2 6 6")
	take("ERR KEYS[3]: its request names this key twice", "good good", "2 6 6")
	take("ERR KEYS[4]: its request names this key twice", "a good good", "3 6 6 6")
	take("ERR ARGV[8]: checks = 0, want 1, or negative for a peek", "", "0")
	bad("ERR ARGV[1]: now_us = 9007199254740992, want 0 to 9007199254740991", "take", "a", "9007199254740992 1 3 5 1000 0 1")
	bad(`ERR ARGV[1]: now_us = "-0", want 0 to 9007199254740991`, "take", "a", "-0 1 3 5 1000 0 1")
	bad("ERR ARGV[1]: now_us is missing, want 0 to 9007199254740991", "take", "", "")
	bad(`ERR ARGV[1]: now_us = "now", want 0 to 9007199254740991`, "take", "a", "now 1 3 5 1000 0 1")
}
