-- Every worker of this nginx has a policy and asks it again and again, as requests would; what each has
-- found is in a dict for a test to wait for.

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

local function await(holds)
    for _ = 1, 1000 do
        local all = true
        for id = 0, ngx.worker.count() - 1 do
            all = all and holds(id)
        end
        if all then
            break
        end
        ngx.sleep(0.01)
    end
end

-- Answers what each worker has, a line each, once the line of each begins with a text and ends with
-- another; after 10 s in any case.
function _M.await(first, last)
    await(function(id)
        local state = dict:get(id) or ""
        return state:sub(1, #first) == first and (last == "" or state:sub(-#last) == last)
    end)
    for id = 0, ngx.worker.count() - 1 do
        ngx.say(dict:get(id))
    end
end

-- Returns when each worker has looked a number of times more.
function _M.await_looks(count)
    local before = {}
    for id = 0, ngx.worker.count() - 1 do
        before[id] = dict:get(id .. " looks")
    end
    await(function(id) return dict:get(id .. " looks") >= before[id] + count end)
end

return _M
