package openresty

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/tests/rig"
)

// startPackTwice is a pack, and beside it another that ?other asks, on the same dict; each of some redis = {}.
func startPackTwice(t *testing.T, one, other, limits string) *rig.Site {
	t.Helper()
	return rig.StartPack(t, nil, one, rig.SiteConf{
		Limits: limits,
		Worker: fmt.Sprintf(`other = assert(require("resty.authz").new{policy = "limits.json", %s})`, other),
		Access: `if ngx.var.args == "other" then other.access() else authz.access() end`,
	})
}

// What one Redis refused is not the other's, whose database, epoch and buckets are its own.
func TestTwoDatabasesShareADictAndNothingInIt(t *testing.T) {
	r := rig.StartRedis(t)
	database := func(n int) string {
		return fmt.Sprintf(`refusal_cache = true, redis = {socket = "%s", timeout = "20s", database = %d}`, r.Socket, n)
	}
	s := startPackTwice(t, database(0), database(1), cachedLimits)
	s.Redis = r
	s.UseUp(t, "me")
	rig.Same(t, s.SendAll(t, 5, "GET /?other", "X-Who: me"), "200 200 200 429 429")
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "429")
}

// While they are away each has its own machine's share; and so has a pack without Redis.
func TestTwoDatabasesThatAreAwayCountEachTheirOwn(t *testing.T) {
	const limits = `
		[limit.two]
		key = []
		algorithm = "fixed_window"
		rate = "2/366d"
		on_error = "local"`
	s := startPackTwice(t, `redis = {socket = "/nowhere.sock"}`, `redis = {socket = "/nowhere.sock", database = 1}`, limits)
	s.MayLog = []string{"nowhere.sock failed", "Redis cannot answer"}
	rig.Same(t, s.SendAll(t, 3, "GET /"), "200 200 429")
	rig.Same(t, s.SendAll(t, 3, "GET /?other"), "200 200 429")

	s = startPackTwice(t, `redis = {socket = "/nowhere.sock"}`, ``, limits)
	s.MayLog = []string{"nowhere.sock failed", "Redis cannot answer"}
	rig.Same(t, s.SendAll(t, 3, "GET /"), "200 200 429")
	rig.Same(t, s.SendAll(t, 3, "GET /?other"), "200 200 429")
}

// A limit that is edited and edited back does not find what was refused before.
func TestALimitEditedBackHasForgottenItsRefusals(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.UseUp(t, "me")
	set := func(limits string) {
		t.Helper()
		rig.ReplaceFile(t, filepath.Join(s.Dir, "limits.json"), string(rig.Compile(t, limits).JSON()))
	}
	set(strings.ReplaceAll(cachedLimits, "3/366d", "5/366d"))
	rig.Await(t, "raised limit", func() bool { return s.Send(t, "GET /", "", "X-Who: me").Status == 200 })
	for _, key := range s.Redis.Keys(context.Background(), "authz:v1:{*").Val() {
		s.Redis.Del(context.Background(), key)
	}
	set(cachedLimits)
	row := 0 // of refusals by the limit as it was
	rig.Await(t, "the limit as it was", func() bool {
		if row++; !strings.Contains(s.Send(t, "GET /", "", "X-Who: you").Header.Get("RateLimit-Policy"), "q=3;") {
			row = 0
		}
		return row == 10
	})
	rig.Same(t, s.SendAll(t, 3, "GET /", "X-Who: me"), "200 200 200")
}

// A Redis that lost everything has lost the epoch, which is heard; and an epoch that comes back, since the
// counter begins again, brings back nothing that was refused before.
func TestAnEpochThatComesBackBringsBackNoRefusal(t *testing.T) {
	ctx := context.Background()
	s := startCached(t, cachedLimits)
	heard := func() {
		t.Helper()
		begun := s.Redis.Calls(t, "get")
		rig.Await(t, "readings of the epoch", func() bool { return s.Redis.Calls(t, "get") >= begun+2 })
	}
	s.Redis.Incr(ctx, "authz:v1:epoch")
	heard()
	s.UseUp(t, "me")
	s.Redis.FlushDB(ctx)
	heard()
	rig.Same(t, s.SendAll(t, 1, "GET /", "X-Who: me"), "200")
	s.Redis.Incr(ctx, "authz:v1:epoch")
	heard()
	rig.Same(t, s.SendAll(t, 3, "GET /", "X-Who: me"), "200 200 429")
}

// A dict that cannot hold what a limit may have to keep is an error at init, which says how much it takes.
func TestADictTooSmallForALimitIsAnErrorAtInit(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "limits.json")
	limit := func(name, rate, onError string) string {
		return fmt.Sprintf("[limit.%s]\nkey = []\nalgorithm = \"sliding_window\"\nrate = %q\non_error = %q\n", name, rate, onError)
	}
	is := func(limits, options, dicts, want string) {
		t.Helper()
		if err := os.WriteFile(policy, []byte(rig.Compile(t, limits).JSON()), 0o644); err != nil {
			t.Fatal(err)
		}
		said := initError(t, rig.Absolute(t, "../lua"), dicts+` init_by_lua_block {
			assert(require("resty.authz").new{policy = "`+policy+`", `+options+`})
			error("it starts")
		}`)
		_, said, _ = strings.Cut(said, "init_by_lua error: ")
		said, _, _ = strings.Cut(said, "\n")
		if want == "" {
			_, said, _ = strings.Cut(said, ":3: ")
			rig.Same(t, said, "it starts")
			return
		}
		_, said, _ = strings.Cut(said, ":2: ")
		rig.Same(t, said, want)
	}
	const small = "authz.new: lua_shared_dict authz 32k is too small, want at least "
	is(noLimits, ``, `lua_shared_dict authz 12k;`, "authz.new: lua_shared_dict authz 12k is too small, want at least 33k")
	is(noLimits, ``, `lua_shared_dict authz 33k;`, "")
	is(limit("many", "9000/h", "local"), ``, `lua_shared_dict authz 32k;`, small+"101k: limit.many keeps 8 bytes for each of up to 9000 requests")
	is(limit("many", "9000/h", "local"), ``, `lua_shared_dict authz 101k;`, "")
	is(strings.Replace(limit("a", "50/h", "local"), "[]", `["ip"]`, 1)+"[override.a.\"10.0.0.0/8\"]\nrate = \"8000/h\"\n", ``,
		`lua_shared_dict authz 32k;`, small+"93k: limit.a keeps 8 bytes for each of up to 8000 requests")
	const monday = "days = [\"mon\"]\nzone = \"UTC\"\n"
	is(limit("a", "50/h", "local")+"[schedule.a.s]\nrate = \"7000/h\"\n"+monday, ``,
		`lua_shared_dict authz 32k;`, small+"85k: limit.a keeps 8 bytes for each of up to 7000 requests")
	is(limit("a", "unlimited", "local")+"[schedule.a.s]\nrate = \"unlimited\"\n"+monday, ``, `lua_shared_dict authz 33k;`, "")
	// Beside Redis it is the share of a machine, of limits that are decided here while Redis is away.
	is("[defaults]\nreplicas = 3\n"+limit("many", "9000/h", "allow"), `redis = {}`, `lua_shared_dict authz 32k;`, small+"53k: limit.many keeps 8 bytes for each of up to 3000 requests")
	is(limit("many", "9000/h", "deny"), `redis = {}`, `lua_shared_dict authz 33k;`, "")

	is(limit("a", "5/h", "local"), `metrics = "m"`, `lua_shared_dict authz 1m; lua_shared_dict m 32k;`, "authz.new: lua_shared_dict m 32k is too small, want at least 45k: it has 55 counters to keep")
	is(limit("a", "5/h", "local"), `metrics = "m"`, `lua_shared_dict authz 1m; lua_shared_dict m 45k;`, "")
}

// What such a dict cannot hold is no less refused when it comes by a newer policy: the older one stays, which the
// metric and a line of the error log tell.
func TestANewerPolicyThatTheDictsAreTooSmallForIsRefused(t *testing.T) {
	const limits = `
		[limit.many]
		key = []
		algorithm = "sliding_window"
		rate = "%d/h"`
	s := &rig.Site{App: rig.StartApp(t)}
	s.NginxServer = rig.StartPackNginx(t, 1, s.PackConf("admitted_headers = true", rig.SiteConf{Dict: "36k"}),
		map[string]string{"limits.json": string(rig.Compile(t, fmt.Sprintf(limits, 100)).JSON())})
	const stay = "the limits stay as they are: "
	s.MayLog = []string{stay}
	const series = "authz_limits_last_reload_successful"
	file := filepath.Join(s.Dir, "limits.json")
	is := func(limits, count, successful string) {
		t.Helper()
		rig.ReplaceFile(t, file, string(rig.Compile(t, limits).JSON()))
		rig.Await(t, "look at the newer policy", func() bool { return s.Metric(t, series) == successful })
		rig.Await(t, "policy of "+count, func() bool {
			return strings.HasPrefix(s.Send(t, "GET /", "").Header.Get("RateLimit-Policy"), `"many";q=`+count+`;`)
		})
	}
	is(fmt.Sprintf(limits, 9000), "100", "0")
	is(fmt.Sprintf(limits, 101), "101", "1")
	var more strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&more, "[limit.l%d]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"1/h\"\n", i)
	}
	is(fmt.Sprintf(limits, 100)+"\n"+more.String(), "101", "0")
	is(fmt.Sprintf(limits, 102), "102", "1")
	log := s.Read(t, "error.log")
	for _, why := range []string{"lua_shared_dict authz 36k is too small, want at least 101k: limit.many keeps 8 bytes for each of up to 9000 requests",
		"lua_shared_dict authz_metrics 1024k is too small, want at least 1300k: it has 5055 counters to keep"} {
		if !strings.Contains(log, stay+file+": "+why) {
			t.Errorf("the error log does not say %s:\n%s", why, log)
		}
	}
}

// An entry for which there is no room is not kept, and its limit admits: that is told, by a line of the
// error log however often it happens, and by a metric. Numbers of the caller's own, which no policy announces,
// can bring it about.
func TestADictTooSmallForAnEntryIsTold(t *testing.T) {
	s := &rig.Site{App: rig.StartApp(t)}
	s.NginxServer = rig.StartPackNginx(t, 1, s.PackConf("", rig.SiteConf{Dict: "36k", Server: evalLua}),
		map[string]string{"limits.json": string(rig.Compile(t, noLimits).JSON())})
	const line = "lua_shared_dict authz has no room for an entry, which counts as never used: make it larger"
	s.MayLog = []string{line}
	s.Eval(t, `for i = 1, 180 do -- twice what the limit admits
			local result = authz.sliding_window("k", {limit = 9000, window_us = 3600000000, cost = 100})
			if not result.allowed then ngx.say(i, " is refused") end
		end`)
	if n := strings.Count(s.Read(t, "error.log"), line); n != 1 {
		t.Errorf("the error log says so %d times, want once:\n%s", n, s.Read(t, "error.log"))
	}
	if n := s.Metric(t, `authz_dict_writes_total{event="full"}`); n == "0" {
		t.Error("the metric does not say so")
	}
}
