-- The pack's two stores, asked over HTTP: POST a JSON request to a location that calls take, and get a
-- line "allowed remaining wait_us reset_us" for each check, or status 500 and the error's kind.

local cjson = require "cjson"
local redis = require "resty.authz.redis"
local scripts = require "resty.authz.scripts"
local shdict = require "resty.authz.shdict"

local _M = {}

--- At init: the scripts, the Redis store on a unix socket, and the shared dict "authz".
function _M.start(socket)
    _M.scripts = assert(scripts.load())
    _M.redis = assert(redis.new({socket = socket, timeout = "10s"}, _M.scripts, function() end))
    _M.shdict = shdict.new(ngx.shared.authz, scripts.fragments(_M.scripts), function() end)
end

function _M.take(store)
    ngx.req.read_body()
    local request = cjson.decode(ngx.req.get_body_data())
    local results, kind, err = store:take(request.now_us, request.checks, request.peek)
    if not results then
        ngx.status = 500
        ngx.say(kind)
        ngx.log(ngx.ERR, err)
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
