package openresty

import (
	"strings"
	"testing"

	"authz/tests/rig"
)

// A phase that cannot wait is refused at the caller's line, on either store, and not only when it would
// have had to wait.
func TestAPhaseThatCannotWaitIsRefused(t *testing.T) {
	for _, r := range []*rig.RedisServer{rig.StartRedis(t), nil} {
		s := rig.StartPack(t, r, "", rig.SiteConf{Limits: noLimits, Server: `
			location = /filter {
				header_filter_by_lua_block {
					local _, err = pcall(function()
						authz.token_bucket("k", {limit = 1, window_us = 1000})
					end)
					ngx.header.X_Said = err
				}
				return 204;
			}
			location = /check {
				header_filter_by_lua_block { local _, err = pcall(function() authz.check() end) ngx.header.X_Said = err }
				return 204;
			}
			location = /timer {
				access_by_lua_block { }
				content_by_lua_block {
					local said
					ngx.timer.at(0, function() said = authz.token_bucket("k", {limit = 1, window_us = 1000}).allowed end)
					for _ = 1, 60000 do
						if said ~= nil then break end
						ngx.sleep(0.001)
					end
					ngx.print(tostring(said))
				}
			}`})
		const wants = "want a phase that can wait, such as access, content or timer"
		_, said, _ := strings.Cut(s.Send(t, "GET /filter", "").Show("X-Said"), "):")
		rig.Same(t, said, "3: authz.token_bucket: this is header_filter, "+wants)
		_, said, _ = strings.Cut(s.Send(t, "GET /check", "").Show("X-Said"), "):")
		rig.Same(t, said, "1: authz.check: this is header_filter, "+wants)
		rig.Same(t, s.Send(t, "GET /timer", "").Body, "true")
	}
}

// access() where nothing comes after it is a mistake that raises: nginx would serve the file of the handler.
func TestAccessInTheContentPhaseServesNoSource(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Access: " ", Server: `
		root html;
		location = /access.lua { content_by_lua_block { authz.access() ngx.print("the handler") } }
		location = /apply.lua  { content_by_lua_block { authz:apply(authz:check()) ngx.print("the handler") } }
		location = /check.lua  { content_by_lua_block { ngx.print("the handler: ", authz.check().verdict) } }
		location = /ok.lua     { access_by_lua_block { authz.access() } content_by_lua_block { ngx.print("the handler") } }
		location = /early.lua  { rewrite_by_lua_block { authz.access() } content_by_lua_block { ngx.print("the handler") } }`,
		Files: map[string]string{"html/access.lua": "SECRET", "html/apply.lua": "SECRET", "html/ok.lua": "SECRET"}})
	rig.Same(t, s.Send(t, "GET /access.lua", "").Show(), "500")
	rig.Same(t, s.Send(t, "GET /apply.lua", "").Show(), "500")
	rig.Same(t, s.Send(t, "GET /check.lua", "").Body, "the handler: admitted")
	rig.Same(t, s.Send(t, "GET /ok.lua", "").Body, "the handler")
	rig.Same(t, s.Send(t, "GET /early.lua", "").Body, "the handler")
	for _, what := range []string{"access", "apply"} {
		said := ":1: authz." + what + ": this is content, want access, rewrite or server_rewrite"
		if !strings.Contains(s.Read(t, "error.log"), said) {
			t.Errorf("the log lacks %q", said)
		}
	}
}

// limit_except drops the set of its location, and keeps its Lua: a zone that stands there counts for every method.
func TestAZoneInLuaOutlivesLimitExcept(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{Limits: `
		[limit.zoned]
		match = { zone = "export" }
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "1/366d"`, Server: evalLua + `
		location /export/ {
			access_by_lua_block { authz.access{zone = "export"} }
			limit_except GET { deny 10.0.0.1; }
			proxy_pass http://app;
		}`})
	rig.Same(t, s.SendAll(t, 2, "POST /export/"), "200 429")
	rig.Same(t, s.SendAll(t, 1, "GET /export/"), "429")
	const want = `code:1: authz: check() and access() take nothing or {zone = "name"}`
	for _, options := range []string{`"export"`, `{zone = 5}`, `{}`, `{zone = "a", key = "b"}`} {
		s.Eval(t, "authz.check("+options+")", want)
		s.Eval(t, "authz:check("+options+")", want)
	}
}

// A worker that was killed while it had the lock stops nobody for longer than the lock lasts; one that was
// only stopped for so long leaves the lock to whoever took it meanwhile.
func TestALockOfTheDictEndsAndIsItsOwners(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	s.Eval(t, `ngx.shared.authz:set("\0lock", 1, 1)
		show(authz.fixed_window("k", {limit = 2, window_us = 1000000, now_us = 1}))
		ngx.say(ngx.shared.authz:get("\0lock"))`, "true 1 0 999999", "nil")
	s.Eval(t, `local shdict = require "resty.authz.shdict"
		local now_us = shdict.now_us
		function shdict.now_us() -- is read while the lock is held
			ngx.shared.authz:set("\0lock", 1, 100)
			return now_us()
		end
		ngx.say(authz.fixed_window("k2", {limit = 2, window_us = 31622400000000}).allowed)
		shdict.now_us = now_us
		ngx.say(ngx.shared.authz:get("\0lock"))`, "true", "1")
}

// Where nginx has no timer to watch the epoch with, the cache answers nobody, and Redis decides.
func TestWithoutTimersRedisIsAsked(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "refusal_cache = true", rig.SiteConf{Http: "lua_max_pending_timers 0;", Limits: `
		[limit.one]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"`})
	rig.Same(t, s.SendAll(t, 4, "GET /"), "200 429 429 429")
	if got := s.Asked(t); got != 4 {
		t.Errorf("Redis decided %d requests, want 4", got)
	}
}
