package service

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"authz/redisscripts"
	"authz/tests/rig"
)

func TestManyClientsAndTwoInstancesAdmitExactlyTheLimit(t *testing.T) {
	r := rig.StartRedis(t)
	// Windows so long that no new one begins, rates so slow that nothing refills.
	file := rig.LimitsFile(t, `
		[limit.tb]
		match     = { path = "/tb" }
		key       = []
		algorithm = "token_bucket"
		rate      = "1/d"
		burst     = 100
		[limit.lb]
		match     = { path = "/lb" }
		key       = []
		algorithm = "leaky_bucket"
		rate      = "1/d"
		[limit.fw]
		match     = { path = "/fw" }
		key       = []
		algorithm = "fixed_window"
		rate      = "100/366d"
		[limit.sw]
		match     = { path = "/sw" }
		key       = []
		algorithm = "sliding_window"
		rate      = "100/d"
		[limit.sc]
		match     = { path = "/sc" }
		key       = []
		algorithm = "sliding_counter"
		rate      = "100/366d"`)
	flags := []string{"--limits=" + file, "--redis=" + r.URL(), "--redis-timeout=20s"}
	two := []*rig.AuthzServer{rig.StartAuthz(t, flags...), rig.StartAuthz(t, flags...)}
	check := func(path string, limit int) {
		t.Helper()
		got := rig.ManyAtOnce(t, 640, two, func(int) (string, []string) { return "GET " + path, nil })
		if want := map[string]int{"200": limit, "429": 640 - limit}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	check("/tb", 100)
	check("/lb", 1)
	check("/fw", 100)
	check("/sw", 100)
	check("/sc", 100)
}

// The bytes of a request are used again for the next on its connection. Were one kept, a caller would
// be charged for another, or a key be written that nobody sent.
func TestNoCallerIsTakenForAnother(t *testing.T) {
	r := rig.StartRedis(t)
	file := rig.LimitsFile(t, `
		[limit.each]
		key       = ["header:X-User", "query:q", "cookie:c"]
		missing   = "deny"
		algorithm = "sliding_window"
		rate      = "3/d"`)
	flags := []string{"--limits=" + file, "--redis=" + r.URL(), "--redis-timeout=20s"}
	two := []*rig.AuthzServer{rig.StartAuthz(t, flags...), rig.StartAuthz(t, flags...)}
	const callers = 500
	got := rig.ManyAtOnce(t, 4*callers, two, func(i int) (string, []string) {
		user := i % callers
		pad := strings.Repeat("x", user%40)
		return fmt.Sprintf("GET /%s?q=%d", pad, user), []string{fmt.Sprintf("X-User: u%d%s", user, pad), fmt.Sprintf("Cookie: c=%d", user)}
	})
	if want := map[string]int{"200": 3 * callers, "429": callers}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v: 3 for each caller", got, want)
	}
	keys := slices.DeleteFunc(r.Keys(context.Background(), "*").Val(), func(key string) bool { return strings.HasSuffix(key, ":epoch") })
	if len(keys) != callers {
		t.Errorf("%d keys in Redis, want %d", len(keys), callers)
	}
	for user := range callers {
		want := fmt.Sprintf("header:x-user=u%d%s|query:q=%d|", user, strings.Repeat("x", user%40), user)
		if !slices.ContainsFunc(keys, func(k string) bool { return strings.Contains(k, "{"+want) }) {
			t.Errorf("no key %q", want)
		}
	}
}

// C048: nobody checks the API key before the limit does, so a client may make up as many as it likes.
func TestAMadeUpHeaderBuysNothingWithASecondLimit(t *testing.T) {
	file := rig.LimitsFile(t, `
		[limit.by_key]
		key       = ["header:X-API-Key"]
		missing   = "ip"
		algorithm = "sliding_window"
		rate      = "3/d"
		[limit.by_ip]
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "3/d"`)
	got := rig.ManyAtOnce(t, 30, []*rig.AuthzServer{rig.StartAuthz(t, "--limits="+file)}, func(i int) (string, []string) {
		return "GET /", []string{fmt.Sprintf("X-API-Key: k%d", i), "X-Real-IP: 203.0.113.9"}
	})
	if want := map[string]int{"200": 3, "429": 27}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestThreeLimitsCostRedisOneCall(t *testing.T) {
	r := rig.StartRedis(t)
	file := rig.LimitsFile(t, `
		[limit.a]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "5/d"
		[limit.b]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "2/366d"
		[limit.c]
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "5/d"`)
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s")
	ask := a.Checker()
	check := func(want string) {
		t.Helper()
		if got := ask.Check(t, "GET /", []string{"X-Real-IP: 203.0.113.9"}, "X-Authz-Limit"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, script := range redisscripts.All() { // loaded at the start, before the first request
		if known := r.ScriptExists(t.Context(), script.SHA).Val(); !known[0] {
			t.Errorf("Redis does not know %s", script.Name)
		}
	}
	calls := r.Calls(t, "evalsha")
	check("200 X-Authz-Limit=b")
	check("200 X-Authz-Limit=b")
	before := stored(t, r)
	check("429 X-Authz-Limit=b")
	check("429 X-Authz-Limit=b")
	if after := stored(t, r); after != before {
		t.Errorf("refusals changed what is stored: before\n%s\nafter\n%s", before, after)
	}
	if strings.Count(before, "\n") != 3 {
		t.Errorf("stored:\n%s\nwant 3 keys", before)
	}
	if n, evals := r.Calls(t, "evalsha")-calls, r.Calls(t, "eval"); n != 3 || evals != 0 {
		t.Errorf("four requests are %d EVALSHA and %d EVAL, want 3 and 0: the second refusal is known from the first", n, evals)
	}
}

// stored is every key, with its value and when it expires.
func stored(t testing.TB, r *rig.RedisServer) string {
	t.Helper()
	ctx := context.Background()
	keys, err := r.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	var all strings.Builder
	for _, k := range keys {
		fmt.Fprintf(&all, "%s %q expires %v\n", k, r.Dump(ctx, k).Val(), r.PExpireTime(ctx, k).Val())
	}
	return all.String()
}
