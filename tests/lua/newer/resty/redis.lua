-- What lua-resty-redis 0.28 has and Debian's library lacks, on top of that: separate timeouts and TLS.
-- AUTHZ_RESTY_REDIS names a folder with the real resty/redis.lua to run the same tests on it.

local older = require "nginx.redis"

local _M = {}
local mt = {__index = function(_, name) return rawget(_M, name) or older[name] end}

function _M.new()
    local self = older:new()
    return self and setmetatable({_sock = self._sock, _subscribed = false}, mt)
end

function _M.set_timeouts(self, connect_ms, send_ms, read_ms)
    self._sock:settimeouts(connect_ms, send_ms, read_ms)
end

function _M.connect(self, host, ...)
    local ok, err = self._sock:connect(host, ...)
    local options = select(select("#", ...), ...)
    if ok and options.ssl then
        ok, err = self._sock:sslhandshake(false, options.server_name, options.ssl_verify)
        if not ok then
            return nil, "failed to do ssl handshake: " .. err
        end
    end
    return ok, err
end

return _M
