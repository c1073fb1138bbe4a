-- Answers requests as `authz explain --json` does, byte for byte: a request a line in, an answer a line
-- out. cjson takes raw bytes where JSON would want UTF-8.

local cjson = require "cjson"
local match = require "resty.authz.match"

local LINE = '{"limit":"%s","key":"%s","redis_key":"%s","algorithm":"%s","limit_count":%d,"window_us":%d,' ..
    '"burst":%d,"offset_us":%d,"cost":%d,"shadow":%s,"on_error":"%s"}'

-- The microseconds since 1970 of a time as RFC 3339 has it.
local function us_of(at)
    local y, m, d, hour, minute, second, fraction, zone =
        at:match("^(%d+)-(%d+)-(%d+)T(%d+):(%d+):(%d+)(%.?%d*)(.+)$")
    y, m = tonumber(y), tonumber(m)
    if m <= 2 then
        y, m = y - 1, m + 12
    end
    local days = 365 * y + math.floor(y / 4) - math.floor(y / 100) + math.floor(y / 400)
        + math.floor((153 * (m - 3) + 2) / 5) + d - 1 - 719468
    local sign, hours, minutes = zone:match("^([+-])(%d+):(%d+)$")
    local east_m = zone == "Z" and 0 or (hours * 60 + minutes) * (sign == "-" and -1 or 1)
    local seconds = ((days * 24 + hour) * 60 + minute - east_m) * 60 + second
    return seconds * 1000000 + math.floor((tonumber("0" .. fraction) or 0) * 1000000 + 0.5)
end

local function attrs_of(line)
    local q = cjson.decode(line)
    local headers = {}
    for name, lines in pairs(q.headers or {}) do
        headers[name:lower()] = lines
    end
    return {
        method = q.method, target = q.uri or "", host = q.host, ip = q.ip, zone = q.zone,
        now_us = q.at and us_of(q.at) or 0,
        cookie = headers.cookie and table.concat(headers.cookie, "; "),
        header = function(_, name) return headers[name] and table.concat(headers[name], ", ") end,
    }
end

local function show_check(check)
    local limit, rate = check.limit, check.rate
    local identity = #limit.key > 0 and check.key:match("{(.*)}") or ""
    return LINE:format(limit.name, identity, check.key, limit.algorithm, rate.limit, rate.window_us,
        rate.burst, rate.offset_us, check.cost, tostring(limit.shadow), limit.on_error)
end

local function show(m)
    local checks = {}
    for i, check in ipairs(m.checks) do
        checks[i] = show_check(check)
    end
    return ('{"verdict":"%s","rule":"%s","checks":[%s]}'):format(m.verdict, m.rule, table.concat(checks, ","))
end

-- The set that the JSON in a file makes.
local sets = {}
local function set_of(path)
    if not sets[path] then
        local file = assert(io.open(path, "rb"))
        sets[path] = match.compile(cjson.decode(file:read("*a")))
        file:close()
    end
    return sets[path]
end

local function body()
    ngx.req.read_body()
    return ngx.req.get_body_data() or ""
end

local _M = {}

-- Answers the lines of the body.
function _M.lines(path)
    local set = set_of(path)
    local answers = {}
    for line in body():gmatch("[^\n]+") do
        answers[#answers + 1] = show(set:match(attrs_of(line)))
    end
    ngx.print(table.concat(answers, "\n"), "\n")
end

-- Matches the request in the body again and again, and answers how many checks it has and how many
-- nanoseconds one match takes.
function _M.time(path, count)
    local set, attrs = set_of(path), attrs_of(body())
    local checks
    ngx.update_time()
    local start = ngx.now()
    for _ = 1, count do
        checks = set:match(attrs).checks
    end
    ngx.update_time()
    ngx.print(#checks, " ", ("%.0f"):format((ngx.now() - start) * 1e9 / count))
end

return _M
