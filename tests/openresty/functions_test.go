package openresty

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// evalLua is a location that runs the Lua code in a request's body, with show() to answer.
const evalLua = `
	location = /eval {
		access_by_lua_block { }
		content_by_lua_block {
			ngx.req.read_body()
			local function show(r, err, kind)
				ngx.say(r and ("%s %d %d %d"):format(tostring(r.allowed), r.remaining, r.wait_us, r.reset_us)
					or kind .. ": " .. err)
			end
			local chunk = assert(loadstring(ngx.req.get_body_data(), "=code"))
			local ok, err = pcall(setfenv(chunk, {authz = authz, show = show, ngx = ngx, require = require}))
			if not ok then ngx.say(err) end
		}
	}`

const noLimits = `[allow.all]`

// One function for each algorithm, with the caller's own key and numbers, at times of the caller's own;
// with a dot or a colon; the same in Redis and in the shared dict.
func TestEachAlgorithmIsAFunction(t *testing.T) {
	for _, r := range []*rig.RedisServer{rig.StartRedis(t), nil} {
		s := rig.StartPack(t, r, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
		at := func(us int) string { return fmt.Sprintf("now_us = %d", 1767225600000000+us) }
		s.Eval(t, `show(authz.token_bucket("k", {limit = 2, window_us = 1000000, burst = 3, cost = 2, `+at(0)+`}))
			show(authz.token_bucket("k", {limit = 2, window_us = 1000000, burst = 3, cost = 2, peek = true, `+at(0)+`}))
			show(authz:token_bucket("k", {limit = 2, window_us = 1000000, burst = 3, cost = 2, `+at(0)+`}))
			show(authz.token_bucket("own", {limit = 2, window_us = 1000000, cost = 3, `+at(0)+`}))`,
			"true 1 0 1000000", "false 1 500000 1000000", "false 1 500000 1000000", "false 2 -1 0")
		s.Eval(t, `show(authz.token_bucket("cold", {limit = 10, window_us = 1000000, burst = 10, initial = 2, `+at(0)+`}))
			show(authz.token_bucket("cold", {limit = 10, window_us = 1000000, burst = 10, initial = 2, cost = 10, peek = true, `+at(900000)+`}))
			show(authz.token_bucket("full", {limit = 10, window_us = 1000000, burst = 10, initial = 10, `+at(0)+`}))`,
			"true 1 0 900000", "true 10 0 0", "true 9 0 100000")
		s.Eval(t, `for i = 1, 3 do show(authz.leaky_bucket("k2", {limit = 1, window_us = 1000000, burst = 1, `+at(0)+`})) end`,
			"true 1 0 1000000", "true 0 1000000 2000000", "false 0 1000000 2000000")
		s.Eval(t, `for i = 1, 2 do show(authz.fixed_window("k3", {limit = 1, window_us = 10000000, offset_us = 3000000, `+at(0)+`})) end`,
			"true 0 0 3000000", "false 0 3000000 3000000")
		s.Eval(t, `for i = 1, 2 do show(authz.sliding_window("k4", {limit = 1, window_us = 10000000, `+at(1)+`})) end`,
			"true 0 0 10000000", "false 0 10000000 10000000")
		s.Eval(t, `for i = 1, 2 do show(authz.sliding_counter("k5", {limit = 1, window_us = 10000000, `+at(0)+`})) end`,
			"true 0 0 20000000", "false 0 20000000 20000000")
		s.Eval(t, `show(authz.token_bucket("now", {limit = 5, window_us = 31622400000000}))`, "true 4 0 6324480000000")
	}
}

// A key is limited however long it is: over the 65,535 bytes that a shared dict takes, its digest stands for it.
func TestAKeyOfAnyLengthIsLimited(t *testing.T) {
	r := rig.StartRedis(t)
	for _, r := range []*rig.RedisServer{r, nil} {
		s := rig.StartPack(t, r, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
		for _, algorithm := range rig.Algorithms {
			for _, length := range []int{65535, 65536, 65537, 200000} {
				burst := map[string]string{"leaky_bucket": ", burst = 1"}[algorithm]
				s.Eval(t, fmt.Sprintf(`local key = "%s" .. ("k"):rep(%d)
					for i = 1, 3 do
						ngx.say(authz.%[1]s(key, {limit = 2, window_us = 31622400000000 %[3]s}).allowed)
					end`, algorithm, length-len(algorithm), burst), "true", "true", "false")
			}
		}
	}
	long := "fixed_window" + strings.Repeat("k", 65536-len("fixed_window"))
	sum := sha256.Sum256([]byte(long))
	want := fmt.Sprintf("%.64s*%x", long, sum[:16])
	if n := r.Exists(t.Context(), want).Val(); n != 1 {
		t.Errorf("Redis has no key %s", want)
	}
}

// A mistake in the numbers is the caller's, and blamed on the caller's line.
func TestWrongNumbersAreBlamedOnTheCaller(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	s.Eval(t, "\nauthz.token_bucket('', {limit = 1, window_us = 1000})", "code:2: authz.token_bucket: key is a string, want a text that is not empty")
	s.Eval(t, `authz.token_bucket(5, {limit = 1, window_us = 1000})`, "code:1: authz.token_bucket: key is a number, want a text that is not empty")
	s.Eval(t, `authz.token_bucket("k")`, "code:1: authz.token_bucket: the numbers are a nil, want a table: {limit = 5, window_us = 60000000}")
	s.Eval(t, `authz.token_bucket("k", {limit = 0, window_us = 1000})`, "code:1: authz.token_bucket: limit = 0, want 1 to 9007199254740991")
	s.Eval(t, `authz.token_bucket("k", {limit = 1.5, window_us = 1000})`, "code:1: authz.token_bucket: limit = 1.5, want 1 to 9007199254740991")
	s.Eval(t, `authz.fixed_window("k", {limit = "5", window_us = 1000})`, `code:1: authz.fixed_window: limit = "5", want 1 to 9007199254740991`)
	s.Eval(t, `authz.fixed_window("k", {window_us = 1000})`, "code:1: authz.fixed_window: limit = nil, want 1 to 9007199254740991")
	s.Eval(t, `authz.fixed_window("k", {limit = 1, window_us = 999})`, "code:1: authz.fixed_window: window_us = 999, want 1000 to 31622400000000")
	s.Eval(t, `authz.fixed_window("k", {limit = 1, window_us = 1000, offset_us = 1000})`, "code:1: authz.fixed_window: offset_us = 1000, want 0 to 999")
	s.Eval(t, `authz.fixed_window("k", {limit = 1, window_us = 1000, burst = 1})`, "code:1: authz.fixed_window: burst is not one of its numbers")
	s.Eval(t, `authz.sliding_window("k", {limit = 10001, window_us = 1000})`, "code:1: authz.sliding_window: limit = 10001, want 1 to 10000")
	s.Eval(t, `authz.sliding_window("k", {limit = 1000, window_us = 1000, cost = 101})`, "code:1: authz.sliding_window: cost = 101, want 1 to 100")
	s.Eval(t, `authz.sliding_counter("k", {limit = 285, window_us = 31622400000000})`, "code:1: authz.sliding_counter: limit = 285, want 1 to 284")
	s.Eval(t, `authz.leaky_bucket("k", {limit = 1, window_us = 31622400000000, burst = 284})`, "code:1: authz.leaky_bucket: burst = 284, want 0 to 283")
	s.Eval(t, `authz.token_bucket("k", {limit = 1, window_us = 31622400000000, burst = 285})`, "code:1: authz.token_bucket: burst = 285, want 1 to 284")
	s.Eval(t, `authz.token_bucket("k", {limit = 5, window_us = 1000, initial = 6})`, "code:1: authz.token_bucket: initial = 6, want 1 to 5")
	s.Eval(t, `authz.token_bucket("k", {limit = 5, window_us = 1000, initial = 0})`, "code:1: authz.token_bucket: initial = 0, want 1 to 5")
	s.Eval(t, `authz.leaky_bucket("k", {limit = 5, window_us = 1000, initial = 1})`, "code:1: authz.leaky_bucket: initial is not one of its numbers")
	s.Eval(t, `authz.token_bucket("k", {limit = 1, window_us = 1000, peek = 1})`, "code:1: authz.token_bucket: peek = 1, want true or false")
	s.Eval(t, `authz.token_bucket("k", {limit = 1, window_us = 1000, now_us = -1})`, "code:1: authz.token_bucket: now_us = -1, want 0 to 9007199254740991")
}

// The bounds of each number are the script's own: at either end Redis takes it, and one further both say the
// same of it.
func TestTheBoundsOfTheNumbersAreThoseOfTheScripts(t *testing.T) {
	scripts := rig.StartScripts(t)
	s := rig.StartPack(t, scripts.RedisServer, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	const most = 1<<53 - 1
	both := func(algorithm, name string, value int) (pack, redis string) {
		t.Helper()
		third := map[string]string{"token_bucket": "burst", "leaky_bucket": "burst", "fixed_window": "offset_us", "sliding_counter": "offset_us"}[algorithm]
		numbers := map[string]int{"limit": 1, "window_us": 31622400000000, "burst": 1, "offset_us": 0, "cost": 1, "now_us": 1767225600000000}
		numbers[name] = value
		code, argv := fmt.Sprintf("show(authz.%s('k', {peek = true", algorithm), []any{}
		for _, n := range []string{"limit", "window_us", third, "cost", "now_us"} {
			if n != "" {
				code += fmt.Sprintf(", %s = %d", n, numbers[n])
			}
			argv = append(argv, numbers[n]) // no name: 0
		}
		pack = strings.TrimSpace(s.Send(t, "POST /eval", code+"}))").Body)
		reply, err := scripts.EvalSha(t.Context(), scripts.Sha[algorithm], []string{"k"}, append(argv, 1)...).Slice()
		if err != nil {
			// A whole word of digits is not quoted there, and a minus makes none.
			return strings.TrimPrefix(pack, "code:1: authz."+algorithm+": "), strings.ReplaceAll(err.Error()[len("ERR ARGV[1]: "):], `"`, "")
		}
		return pack, fmt.Sprint(reply[0].(int64) == 1, " ", reply[1], " ", reply[2], " ", reply[3])
	}
	within := func(algorithm, name string, low, high int) {
		t.Helper()
		for _, value := range []int{low - 1, low, high, high + 1} {
			pack, redis := both(algorithm, name, value)
			outside := value < low || value > high
			if pack != redis || outside != strings.HasPrefix(redis, fmt.Sprintf("%s = %d, want %d to %d", name, value, low, high)) {
				t.Errorf("%s, %s = %d, want %d to %d:\nthe pack says  %s\nthe script says %s", algorithm, name, value, low, high, pack, redis)
			}
		}
	}
	for _, algorithm := range rig.Algorithms {
		within(algorithm, "window_us", 1000, 31622400000000)
		within(algorithm, "now_us", 0, most)
		if algorithm != "sliding_window" {
			within(algorithm, "cost", 1, most)
		}
	}
	within("token_bucket", "limit", 1, most)
	within("token_bucket", "burst", 1, 284)
	within("leaky_bucket", "limit", 1, most)
	within("leaky_bucket", "burst", 0, 283)
	within("fixed_window", "limit", 1, most)
	within("fixed_window", "offset_us", 0, 31622399999999)
	within("sliding_window", "limit", 1, 10000)
	within("sliding_window", "cost", 1, 100)
	within("sliding_counter", "limit", 1, 284)
	within("sliding_counter", "offset_us", 0, 31622399999999)
}

// What the world does is returned.
func TestAFailureOfRedisIsReturned(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	r.LPush(t.Context(), "list", "x")
	s.Eval(t, `show(authz.fixed_window("list", {limit = 1, window_us = 1000}))`, "wrongtype: WRONGTYPE Operation against a key holding the wrong kind of value")
}
