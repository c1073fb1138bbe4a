-- Every worker of this nginx has a policy and asks it again and again, as requests would; what each has
-- found is in a dict for a test to see.

local policy = require "resty.authz.policy"

local _M = {}
local dict = ngx.shared.watch
local watched

-- Called at init.
function _M.start(path)
    watched = assert(policy.new(path))
end

-- Called at the start of each worker.
function _M.work()
    assert(ngx.timer.every(0.05, function()
        local set = watched:current()
        if dict:get(ngx.worker.id() .. " looked") ~= watched.polled_s then
            dict:set(ngx.worker.id() .. " looked", watched.polled_s)
            dict:incr(ngx.worker.id() .. " looks", 1, 0)
        end
        dict:set(ngx.worker.id(), set.version .. " " .. (watched.failure or ""))
    end))
end

-- Answers what each worker has, a line each: how often it has looked, the version and the failure.
function _M.show()
    for id = 0, ngx.worker.count() - 1 do
        ngx.say(dict:get(id .. " looks") or 0, " ", dict:get(id) or "")
    end
end

return _M
