package openresty

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/tests/rig"
)

// packInitError is what nginx says of new{options}, which stands on the third line of a block.
func packInitError(t testing.TB, lua, options string) string {
	t.Helper()
	said := initError(t, lua, fmt.Sprintf(`
		lua_shared_dict authz 1m;
		init_by_lua_block {
			local authz = require("resty.authz")

			assert(authz.new%s)
		}`, options))
	_, said, _ = strings.Cut(said, "init_by_lua error: ")
	said, _, _ = strings.Cut(said, "\n")
	return said
}

// A mistake in the options keeps nginx from starting, and blames the line that made it.
func TestAMistakeIsBlamedOnTheCallersLineAtInit(t *testing.T) {
	lua := rig.Absolute(t, "../lua")
	is := func(options, want string) {
		t.Helper()
		const at = "init_by_lua(nginx.conf:12):4: authz.new: "
		if got := packInitError(t, lua, options); got != at+want {
			t.Errorf("new%s\ngot  %s\nwant %s", options, got, at+want)
		}
	}
	is(`()`, `the options are a nil, want a table`)
	is(`{polcy = "x"}`, `polcy is no option, want one of admitted_headers, dict, headers, metrics, policy, redis, refusal_cache, retry_after_max`)
	is(`{policy = 5}`, `policy is a number, want a string`)
	is(`{refusal_cache = true}`, `refusal_cache = true, want policy and redis beside it: it caches what Redis refuses`)
	is(`{headers = "all"}`, `headers = "all", want "ietf", "legacy" or "both"`)
	is(`{retry_after_max = 60}`, `retry_after_max is a number, want a string`)
	is(`{retry_after_max = "1500ms"}`, `retry_after_max = "1500ms", want whole seconds`)
	is(`{dict = "buckets"}`, `dict = "buckets", but nginx.conf has no lua_shared_dict buckets`)
	is(`{metrics = "numbers"}`, `metrics = "numbers", but nginx.conf has no lua_shared_dict numbers`)
	is(`{redis = {pasword = "x"}}`, `redis.pasword is no option, want one of connect_timeout, database, host, password, pool_idle, pool_size, port, read_timeout, send_timeout, socket, timeout, tls, tls_name, tls_verify, user`)
	is(`{redis = {port = "6379"}}`, `redis.port is a string, want a number`)
	is(`{redis = {port = 6379.5}}`, `redis.port = 6379.5, want a whole number from 1`)
	is(`{redis = {database = -1}}`, `redis.database = -1, want a whole number from 0`)
	is(`{redis = {socket = "/s", host = "h"}}`, `redis.socket stands beside host, port or tls, want one or the other`)
	is(`{redis = {tls_name = "r"}}`, `redis.tls_name and redis.tls_verify are for TLS, want redis.tls = true beside them`)
	is(`{redis = {tls_verify = false}}`, `redis.tls_name and redis.tls_verify are for TLS, want redis.tls = true beside them`)
	is(`{redis = {user = "u"}}`, `redis.user has no redis.password beside it`)

	// C135: a bare number is nobody's idea of the same unit.
	is(`{redis = {timeout = 50}}`, `redis.timeout = 50, want a duration with a unit, such as "50ms" or "2s"`)
	is(`{redis = {timeout = "50"}}`, `redis.timeout = "50", want a duration with a unit, such as "50ms" or "2s"`)
	is(`{redis = {timeout = "0ms"}}`, `redis.timeout = "0ms", want a duration with a unit, such as "50ms" or "2s"`)
	is(`{redis = {pool_idle = "1 m"}}`, `redis.pool_idle = "1 m", want a duration with a unit, such as "50ms" or "2s"`)
}

// What the world has done is returned, for assert to tell.
func TestAFileThatCannotBeUsedIsReturnedAtInit(t *testing.T) {
	lua := rig.Absolute(t, "../lua")
	rig.Same(t, packInitError(t, lua, `{policy = "/nowhere.json"}`), "init_by_lua(nginx.conf:12):4: /nowhere.json: No such file or directory")

	dir := copyPack(t)
	script := filepath.Join(dir, "resty/authz/v1/sliding_window.lua")
	if err := os.Remove(script); err != nil {
		t.Fatal(err)
	}
	rig.Same(t, packInitError(t, dir, `{}`), "init_by_lua(nginx.conf:12):4: "+script+": No such file or directory")
}

// The installed pack is only files, and starts from wherever it lies.
func TestTheInstalledPackStartsAndSetsNoGlobal(t *testing.T) {
	dir := copyPack(t)
	n := rig.StartPackNginx(t, 1, fmt.Sprintf(`
		lua_shared_dict authz 1m;
		init_by_lua_block {
			package.path = "%s/?.lua;/usr/share/lua/5.1/?.lua"
			require("cjson")
			local before = {}
			for name in pairs(_G) do before[name] = true end
			local authz = assert(require("resty.authz").new{redis = {}})
			for name in pairs(_G) do
				if not before[name] then error("a global is set: " .. name) end
			end
			package.loaded.mine = authz
		}
		server {
			listen LISTEN;
			location / { content_by_lua_block { ngx.print(require("mine").token_bucket and "here" or "gone") } }
		}`, dir), nil)
	rig.Same(t, n.Send(t, "GET /", "").Body, "here")
}

// Who forgets the include, or the policy, is told so in the log, and nobody is let through.
func TestAForgottenIncludeIsAnErrorThatSaysSo(t *testing.T) {
	n := rig.StartPackNginx(t, 1, `
		lua_shared_dict authz 1m;
		init_by_lua_block {
			authz = assert(require("resty.authz").new{policy = ngx.config.prefix() .. "limits.json"})
		}
		server {
			listen LISTEN;
			access_by_lua_block {
				authz.access()
			}
		}`, map[string]string{"limits.json": string(rig.Compile(t, noLimits).JSON())})
	rig.Same(t, n.Send(t, "GET /", "").Show(), "500")
	if !strings.Contains(n.Read(t, "error.log"), "access_by_lua(nginx.conf:24):2: authz: this server{} does not include authz/openresty.conf") {
		t.Errorf("the log does not say so:\n%s", n.Read(t, "error.log"))
	}

	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	s.Eval(t, `local other = require("resty.authz").new{}
		other.check()`, "code:2: authz: check() and access() need new{policy = …}")
	s.Eval(t, `local other = require("resty.authz").new{}
		other.metrics()`, "code:2: authz: metrics() needs new{metrics = …}")
}
