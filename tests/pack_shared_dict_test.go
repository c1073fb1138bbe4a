package tests

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// startPackTwice is a pack, and beside it another that ?other asks, on the same dict; each of some redis = {}.
func startPackTwice(t *testing.T, one, other, limits string) *site {
	t.Helper()
	return startPack(t, nil, one, siteConf{
		limits: limits,
		http: fmt.Sprintf(`
			init_worker_by_lua_block {
				other = assert(require("resty.authz").new{policy = "limits.json", %s})
			}`, other),
		access: `if ngx.var.args == "other" then other.access() else authz.access() end`,
	})
}

// What one Redis refused is not the other's, whose database, epoch and buckets are its own.
func TestTwoDatabasesShareADictAndNothingInIt(t *testing.T) {
	r := startRedis(t)
	database := func(n int) string {
		return fmt.Sprintf(`refusal_cache = true, redis = {socket = "%s", timeout = "20s", database = %d}`, r.socket, n)
	}
	s := startPackTwice(t, database(0), database(1), cachedLimits)
	s.redis = r
	s.useUp(t, "me")
	same(t, s.sendAll(t, 5, "GET /?other", "X-Who: me"), "200 200 200 429 429")
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me"), "429")
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
	s.mayLog = []string{"nowhere.sock failed", "Redis cannot answer"}
	same(t, s.sendAll(t, 3, "GET /"), "200 200 429")
	same(t, s.sendAll(t, 3, "GET /?other"), "200 200 429")

	s = startPackTwice(t, `redis = {socket = "/nowhere.sock"}`, ``, limits)
	s.mayLog = []string{"nowhere.sock failed", "Redis cannot answer"}
	same(t, s.sendAll(t, 3, "GET /"), "200 200 429")
	same(t, s.sendAll(t, 3, "GET /?other"), "200 200 429")
}

// A limit that is edited and edited back does not find what was refused before.
func TestALimitEditedBackHasForgottenItsRefusals(t *testing.T) {
	s := startCached(t, cachedLimits)
	s.useUp(t, "me")
	set := func(limits string) {
		t.Helper()
		replaceFile(t, filepath.Join(s.dir, "limits.json"), string(compile(t, limits).JSON()))
	}
	set(strings.ReplaceAll(cachedLimits, "3/366d", "5/366d"))
	await(t, "raised limit", func() bool { return s.send(t, "GET /", "", "X-Who: me").status == 200 })
	for _, key := range s.redis.Keys(context.Background(), "authz:v1:*").Val() {
		s.redis.Del(context.Background(), key)
	}
	set(cachedLimits)
	row := 0 // of refusals by the limit as it was
	await(t, "the limit as it was", func() bool {
		if row++; !strings.Contains(s.send(t, "GET /", "", "X-Who: you").header.Get("RateLimit-Policy"), "q=3;") {
			row = 0
		}
		return row == 10
	})
	same(t, s.sendAll(t, 3, "GET /", "X-Who: me"), "200 200 200")
}

// A Redis that lost everything has lost the epoch, which is heard; and an epoch that comes back, since the
// counter begins again, brings back nothing that was refused before.
func TestAnEpochThatComesBackBringsBackNoRefusal(t *testing.T) {
	ctx := context.Background()
	s := startCached(t, cachedLimits)
	heard := func() {
		t.Helper()
		begun := s.redis.calls(t, "get")
		await(t, "readings of the epoch", func() bool { return s.redis.calls(t, "get") >= begun+2 })
	}
	s.redis.Incr(ctx, "authz:v1:epoch")
	heard()
	s.useUp(t, "me")
	s.redis.FlushDB(ctx)
	heard()
	same(t, s.sendAll(t, 1, "GET /", "X-Who: me"), "200")
	s.redis.Incr(ctx, "authz:v1:epoch")
	heard()
	same(t, s.sendAll(t, 3, "GET /", "X-Who: me"), "200 200 429")
}

// An entry for which there is no room is not kept, and its limit admits: that is told, by a line of the
// error log (of each worker at most) however often it happens, and by a metric.
func TestADictTooSmallForAnEntryIsTold(t *testing.T) {
	s := startPack(t, nil, "", siteConf{dict: "32k", limits: `
		[limit.many]
		key = []
		algorithm = "sliding_window"
		rate = "9000/h"
		cost = "header:X-Cost"
		cost_max = 100`})
	const line = "lua_shared_dict authz has no room for an entry, which counts as never used: make it larger"
	s.mayLog = []string{line}
	for range 180 { // twice what the limit admits
		same(t, s.sendAll(t, 1, "GET /", "X-Cost: 100"), "200")
	}
	if n := strings.Count(s.read(t, "error.log"), line); n < 1 || n > 2 {
		t.Errorf("the error log says so %d times, want once, or once a worker:\n%s", n, s.read(t, "error.log"))
	}
	if n := s.metric(t, `authz_dict_writes_total{event="full"}`); n == "0" {
		t.Error("the metric does not say so")
	}
}
