--- What is known of the request that nginx is serving.

local concat, rawget, setmetatable, type = table.concat, rawget, setmetatable, type
local ngx = ngx
local get_headers, get_method = ngx.req.get_headers, ngx.req.get_method

local _M = {}

local attrs = {}
attrs.__index = attrs

--- The value of a header, its lines joined by ", ", by its name in lower case; nil when it was not sent.
function attrs:header(name)
    local headers = self.headers
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

--- The attributes of the request, as match takes them.
function _M.of_request()
    local var = ngx.var
    return setmetatable({
        method = get_method(), target = var.request_uri, host = var.host, ip = var.remote_addr,
        zone = var.authz_zone, cookie = var.http_cookie, headers = false,
    }, attrs)
end

return _M
