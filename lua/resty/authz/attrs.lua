--- What is known of the request that nginx is serving.

local nginx = require "resty.authz.nginx"

local concat, rawget, setmetatable, type = table.concat, rawget, setmetatable, type
local ngx = ngx
local get_headers, get_method = ngx.req.get_headers, ngx.req.get_method
local variable = nginx.variable

local _M = {}

-- What few limits ask for is read when one does.
local READ = {
    method = function() return get_method() end,
    ip = function() return variable("remote_addr") end,
    host = function() return variable("host") end,
    zone = function() return variable("authz_zone") end,
    cookie = function() return variable("http_cookie") end,
    now_us = function() return nginx.now_us() end,
}

local current = setmetatable({}, {
    __index = function(_, name)
        local value = READ[name]()
        return value -- no tail call, for the reason that nginx.lua gives
    end,
})

-- The value of a header, its lines joined by ", ", by its name in lower case; nil when it was not sent.
function current:header(name)
    local headers = rawget(self, "headers")
    if not headers then
        headers = get_headers(0) -- all of them, however many there are
        self.headers = headers
    end
    local value = rawget(headers, name) -- the table itself would find x-a for x_a
    if type(value) == "table" then
        return concat(value, ", ")
    end
    return value
end

--- The attributes of the request, as match takes them: it is done with them before another request has its
-- turn. target is the $request_uri.
function _M.of_request(target)
    current.target, current.headers = target, nil
    return current
end

return _M
