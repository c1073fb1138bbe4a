package tests

import (
	"strings"
	"testing"
)

// A phase that cannot wait is refused at the caller's line, on either store, and not only when it would
// have had to wait.
func TestAPhaseThatCannotWaitIsRefused(t *testing.T) {
	for _, r := range []*redisServer{startRedis(t), nil} {
		s := startPack(t, r, "", siteConf{limits: noLimits, server: `
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
		_, said, _ := strings.Cut(s.send(t, "GET /filter", "").show("X-Said"), "):")
		same(t, said, "3: authz.token_bucket: this is header_filter, "+wants)
		_, said, _ = strings.Cut(s.send(t, "GET /check", "").show("X-Said"), "):")
		same(t, said, "1: authz.check: this is header_filter, "+wants)
		same(t, s.send(t, "GET /timer", "").body, "true")
	}
}

// A worker that was killed while it had the lock stops nobody for longer than the lock lasts; one that was
// only stopped for so long leaves the lock to whoever took it meanwhile.
func TestALockOfTheDictEndsAndIsItsOwners(t *testing.T) {
	s := startPack(t, nil, "", siteConf{limits: noLimits, server: evalLua})
	s.eval(t, `ngx.shared.authz:set("\0lock", 1, 1)
		show(authz.fixed_window("k", {limit = 2, window_us = 1000000, now_us = 1}))
		ngx.say(ngx.shared.authz:get("\0lock"))`, "true 1 0 999999", "nil")
	s.eval(t, `local shdict = require "resty.authz.shdict"
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
	s := startPack(t, startRedis(t), "refusal_cache = true", siteConf{http: "lua_max_pending_timers 0;", limits: `
		[limit.one]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"`})
	same(t, s.sendAll(t, 4, "GET /"), "200 429 429 429")
	if got := s.asked(t); got != 4 {
		t.Errorf("Redis decided %d requests, want 4", got)
	}
}
