package openresty

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

const reloadLimit = `
	[limit.one]
	key = ["ip"]
	algorithm = "fixed_window"
	rate = "%d/366d"`

// Every worker takes newer limits by a timer: a worker without requests has them before its next request.
func TestAWorkerWithoutRequestsTakesNewerLimits(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: fmt.Sprintf(reloadLimit, 1000)})
	rig.ReplaceFile(t, s.PolicyFile(), string(rig.Compile(t, `[deny.all]`).JSON()))
	s.AwaitLog(t, 2, "new limits, version")
	rig.Same(t, s.SendAll(t, 8, "GET /"), "403 403 403 403 403 403 403 403")
}

// Without init_worker() a worker begins with its first request, which has the newer limits; the log names the missing line once.
func TestAWorkerWithoutItsTimerBeginsToPollAtItsFirstRequest(t *testing.T) {
	n := rig.StartPackNginx(t, 1, `
		lua_shared_dict authz 1m;
		init_by_lua_block { authz = assert(require("resty.authz").new{policy = "limits.json"}) }
		server {
			listen LISTEN;
			include authz/openresty.conf;
			access_by_lua_block { authz.access() }
			location / { content_by_lua_block { ngx.print("ok") } }
		}`, map[string]string{"limits.json": string(rig.Compile(t, fmt.Sprintf(reloadLimit, 1000)).JSON())})
	file := filepath.Join(n.Dir, "limits.json")
	rig.ReplaceFile(t, file, string(rig.Compile(t, `[deny.all]`).JSON()))
	rig.Same(t, n.Send(t, "GET /", "").Show(), "403")
	rig.ReplaceFile(t, file, string(rig.Compile(t, `[allow.all]`).JSON()))
	n.AwaitLog(t, 2, "new limits, version")
	rig.Same(t, n.Send(t, "GET /", "").Show(), "200")
	rig.Same(t, fmt.Sprint(strings.Count(n.Read(t, "error.log"), "want init_worker_by_lua_block { authz.init_worker() }")), "1")
}

// What is no regular file, or is written in place, is refused; the workers go on with the limits that they have.
func TestAFileThatCannotBeReadWholeIsRefused(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: fmt.Sprintf(reloadLimit, 1000)})
	const succeeded = "authz_limits_last_reload_successful"
	good, err := os.ReadFile(s.PolicyFile())
	if err != nil {
		t.Fatal(err)
	}
	refused := func(said string) {
		t.Helper()
		s.AwaitLog(t, 2, "the limits stay as they are: "+s.PolicyFile()+": "+said)
		rig.Same(t, s.SendAll(t, 8, "GET /"), "200 200 200 200 200 200 200 200")
		rig.Same(t, s.Metric(t, succeeded), "0")
		rig.ReplaceFile(t, s.PolicyFile(), string(good))
		rig.Await(t, "success", func() bool { return s.Metric(t, succeeded)+s.Metric(t, succeeded)+s.Metric(t, succeeded) == "111" })
	}
	if err := os.Truncate(s.PolicyFile(), int64(len(good))-30); err != nil { // of the version in use
		t.Fatal(err)
	}
	refused("is cut short or changed")
	if err := os.Remove(s.PolicyFile()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(s.PolicyFile(), 0o644); err != nil {
		t.Fatal(err)
	}
	refused("is a FIFO or a socket, want a regular file")
	if err := os.Remove(s.PolicyFile()); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(s.PolicyFile(), 0o755); err != nil {
		t.Fatal(err)
	}
	s.AwaitLog(t, 2, "the limits stay as they are: "+s.PolicyFile()+": Is a directory")
}

// everyShape has every field that the JSON can have.
const everyShape = `
	[defaults]
	replicas = 2
	[limit.every]
	match = { path = "/a/*", host = "h", method = "GET", zone = "z", ip = "10.0.0.0/8", header = { X-A = "a" }, query = { q = "b" }, cookie = { c = "d" } }
	unless = { path = "/a/b" }
	key = ["ip", "path", "header:X-API-Key"]
	missing = "ip"
	algorithm = "token_bucket"
	rate = "100/s"
	burst = 200
	initial = 0.1
	cost = "header:X-Cost"
	cost_max = 5
	[override.every."10.0.0.0/8|/a/*|k"]
	rate = "5/s"
	[schedule.every.sale]
	from = "2030-01-01T00:00"
	until = "2030-02-01T00:00"
	days = ["mon", "fri"]
	zone = "Europe/Berlin"
	rate = "10/s"
	burst = 100
	[limit.window]
	key = []
	algorithm = "fixed_window"
	rate = "1000/d"
	utc_offset = "+08:00"
	[limit.free]
	key = []
	algorithm = "sliding_window"
	rate = "unlimited"
	[deny.d]
	match = { path = "/d" }
	[allow.a]
	match = { path = "/e" }`

// Limits with a wrong type anywhere are refused when they are read: no request finds out.
func TestAWrongTypeAnywhereInTheLimitsIsRefused(t *testing.T) {
	text := rig.Compile(t, everyShape).JSON()
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: `
		client_body_buffer_size 1m;
		location = /check {
			access_by_lua_block { }
			content_by_lua_block {
				ngx.req.read_body()
				local set = require("cjson").decode(ngx.req.get_body_data())
				local ok, err = pcall(require("resty.authz.schema").check, set, function() end)
				ngx.print(ok and "taken" or err)
			}
		}`})
	var set any
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	check := func() string {
		changed, err := json.Marshal(set)
		if err != nil {
			t.Fatal(err)
		}
		return s.Send(t, "POST /check", string(changed)).Body
	}
	rig.Same(t, check(), "taken")
	tried := 0
	eachPlace(set, "", func(place string, value any, put func(any)) {
		for _, wrong := range wrongFor(value) {
			if wrong == nil && strings.Contains(place, "override_prefixes.") { // a family without any
				continue
			}
			put(wrong)
			if got := check(); !strings.Contains(got, ", want ") && !strings.Contains(got, " is unknown") {
				t.Errorf("%s = %v: %s", place, wrong, got)
			}
			tried++
		}
		put(value)
	})
	if tried < 300 {
		t.Errorf("%d wrong values are tried, want more", tried)
	}
}

// wrongFor are values of other types.
func wrongFor(value any) []any {
	switch value.(type) {
	case string:
		return []any{5, true, []any{"a"}, map[string]any{"a": 1}, nil}
	case float64:
		return []any{"5", true, []any{5}, 1.5, 1e300, nil}
	case bool:
		return []any{"true", 1, []any{}, nil}
	}
	return []any{5, "a", true, []any{1.5}, map[string]any{"a": 5}, nil}
}

// eachPlace visits every value below a value of JSON.
func eachPlace(value any, place string, visit func(place string, value any, put func(any))) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			visit(place+"."+key, v[key], func(other any) { v[key] = other })
			eachPlace(v[key], place+"."+key, visit)
		}
	case []any:
		for i := range v {
			visit(fmt.Sprint(place, ".", i), v[i], func(other any) { v[i] = other })
			eachPlace(v[i], fmt.Sprint(place, ".", i), visit)
		}
	}
}
