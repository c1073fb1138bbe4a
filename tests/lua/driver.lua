-- The pack's two stores, asked over HTTP: POST a JSON request to a location that calls take, and get a
-- line "allowed remaining wait_us reset_us" for each check, or status 503 and the error's kind.

local cjson = require "cjson"
local redis = require "resty.authz.redis"
local scripts = require "resty.authz.scripts"
local shdict = require "resty.authz.shdict"

local _M = {}

--- At init: the scripts, a Redis store for each of redis_options, and the shared dict "authz".
function _M.start(redis_options)
    _M.scripts = assert(scripts.load())
    _M.redis = {}
    for name, options in pairs(redis_options) do
        _M.redis[name] = assert(redis.new(options, _M.scripts, function() end))
    end
    _M.shdict = shdict.new(ngx.shared.authz, scripts.fragments(_M.scripts), "", function() end)
end

function _M.take(store)
    ngx.req.read_body()
    local request = cjson.decode(ngx.req.get_body_data())
    local results, err, kind = store:take(request.now_us, request.checks, request.peek)
    if not results then
        ngx.status = 503
        ngx.say(kind)
        ngx.log(ngx.NOTICE, err)
        return
    end
    for _, r in ipairs(results) do
        ngx.say(("%d %d %d %d"):format(r.allowed and 1 or 0, r.remaining, r.wait_us, r.reset_us))
    end
end

--- Writes the name and SHA of each script.
function _M.list()
    for name, script in pairs(_M.scripts) do
        ngx.say(name, " ", script.sha)
    end
end

return _M
