--- The shape of the JSON that `authz compile` writes (limits/json.go has its meaning): every field with its
-- type and its bounds. A set of another shape, from another release or edited by hand, is refused whole when
-- it is read, and no request meets it.

local cjson = require "cjson"

local concat, format, sub, type = table.concat, string.format, string.sub, type

local _M = {}

local MAX = 2^53
local WINDOW_US = {1000, 31622400000000} -- a millisecond to 366 days

local function shown(value)
    if type(value) == "string" then
        return format("%q", sub(value, 1, 40))
    elseif type(value) == "number" then
        return format(value % 1 == 0 and "%.0f" or "%.17g", value)
    elseif value == cjson.null then
        return "null"
    elseif value == nil then
        return "nothing"
    end
    return type(value) == "table" and "a table" or tostring(value)
end

local function path(prefix, key)
    return prefix == "" and tostring(key) or prefix .. "." .. key
end

-- where is the rule: "limit.login". prefix and key say which of its fields: "rate" and "limit".
local function fail(where, prefix, key, value, want)
    error(format("%s: %s = %s, want %s", where, path(prefix, key), shown(value), want), 0)
end

-- A type is a function that raises when a value is none of its own.
local function text(value, where, prefix, key)
    if type(value) ~= "string" or value == "" then
        fail(where, prefix, key, value, "a text")
    end
end

local function pattern(value, where, prefix, key)
    if type(value) ~= "string" then
        fail(where, prefix, key, value, "a text")
    end
end

local function name(value, where, prefix, key)
    if type(value) ~= "string" or #value > 64 or not value:find("^[%w_-]+$") then
        fail(where, prefix, key, value, "1 to 64 of A-Z a-z 0-9 _ -")
    end
end

local function boolean(value, where, prefix, key)
    if type(value) ~= "boolean" then
        fail(where, prefix, key, value, "true or false")
    end
end

local function whole(low, high)
    return function(value, where, prefix, key)
        if type(value) ~= "number" or value % 1 ~= 0 or value < low or value > high then
            fail(where, prefix, key, value, format("%.0f to %.0f", low, high))
        end
    end
end

local function one_of(...)
    local words, list = {}, {...}
    for _, word in ipairs(list) do
        words[word] = true
    end
    local want = concat(list, ", ", 1, #list - 1) .. " or " .. list[#list]
    return function(value, where, prefix, key)
        if type(value) ~= "string" or not words[value] then
            fail(where, prefix, key, value, want)
        end
    end
end

local function list_of(item, count)
    return function(value, where, prefix, key)
        if type(value) ~= "table" or count and #value ~= count then
            fail(where, prefix, key, value, count and format("a list of %d", count) or "a list")
        end
        local inside = path(prefix, key)
        for i in pairs(value) do
            if type(i) ~= "number" then
                fail(where, prefix, key, value, "a list")
            end
            item(value[i], where, inside, i)
        end
    end
end

local function map_of(item)
    return function(value, where, prefix, key)
        if type(value) ~= "table" then
            fail(where, prefix, key, value, "a table")
        end
        local inside = path(prefix, key)
        for k, v in pairs(value) do
            text(k, where, inside, k)
            item(v, where, inside, k)
        end
    end
end

-- Raises where a table has a field that is in neither, lacks one of `required`, or has one of another type.
local function check_fields(value, where, inside, required, optional)
    for k, v in pairs(value) do
        if optional[k] then
            optional[k](v, where, inside, k)
        elseif not required[k] then
            error(format("%s: %s is unknown", where, path(inside, k)), 0)
        end
    end
    for k, check in pairs(required) do
        check(value[k], where, inside, k)
    end
end

local function object(required, optional)
    return function(value, where, prefix, key)
        if type(value) ~= "table" then
            fail(where, prefix, key, value, "a table")
        end
        check_fields(value, where, path(prefix, key), required, optional or {})
    end
end

local function or_null(check)
    return function(value, where, prefix, key)
        if value ~= cjson.null then
            check(value, where, prefix, key)
        end
    end
end

local amount, positive = whole(0, MAX), whole(1, MAX)
local patterns, texts, times = list_of(pattern), list_of(text), list_of(list_of(whole(-MAX, MAX), 2))

local CONDITION = object({}, {
    path = patterns, host = patterns, method = patterns, zone = patterns, ip = patterns,
    header = map_of(patterns), query = map_of(patterns), cookie = map_of(patterns),
})
local RULE, CONDITIONS = {name = name}, {match = CONDITION, unless = CONDITION}

local WINDOWS = {limit = amount, window_us = whole(WINDOW_US[1], WINDOW_US[2])}
local BUCKETS = {n = positive, w = positive, capacity = positive}
local OF_RATE = {
    offset_us = amount, burst = amount, initial = amount, n = amount, w = amount, capacity = amount,
}

-- Buckets are computed in n, w and capacity; "0/s" has none.
local function check_rate(value, where, inside, algorithm)
    check_fields(value, where, inside, WINDOWS, OF_RATE)
    if value.limit > 0 and (algorithm == "token_bucket" or algorithm == "leaky_bucket") then
        for k, check in pairs(BUCKETS) do
            check(value[k], where, inside, k)
        end
    end
    if value.initial and value.initial > (value.burst or 0) then
        fail(where, inside, "initial", value.initial, format("0 to %.0f", value.burst or 0))
    end
end

local function rate_of(value, where, prefix, key, algorithm)
    if type(value) ~= "table" then
        fail(where, prefix, key, value, "a table")
    end
    local inside = path(prefix, key)
    if value.unlimited ~= nil then
        if value.unlimited ~= true or next(value) ~= "unlimited" or next(value, "unlimited") then
            fail(where, inside, "unlimited", value.unlimited, "true, and nothing beside it")
        end
        return
    end
    local share = value.share
    if share ~= nil then
        if type(share) ~= "table" then
            fail(where, inside, "share", share, "a table")
        end
        check_rate(share, where, path(inside, "share"), algorithm)
        value.share = nil -- the shape of the rest
    end
    check_rate(value, where, inside, algorithm)
    value.share = share
end

local PART = object({
    kind = one_of("ip", "host", "method", "path", "path:raw", "zone", "header", "query", "cookie"),
    head = text,
}, {name = text, secret = boolean, texts = texts})
local SCHEDULE = {name = name, rate = function() end} -- the rate is looked at by algorithm
local OF_SCHEDULE = {from_us = whole(-MAX, MAX), until_us = whole(-MAX, MAX), week = times, zone = text}

local LIMIT = {
    name = name, key = list_of(PART), rate = SCHEDULE.rate, shadow = boolean,
    algorithm = one_of("token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter"),
    on_error = one_of("allow", "deny", "local"),
}
local OF_LIMIT = {
    match = CONDITION, unless = CONDITION, missing = one_of("skip", "deny", "share", "ip"),
    cost = positive, cost_header = text, cost_max = positive,
    schedules = list_of(function() end), overrides = map_of(function() end),
    override_prefixes = object({}, {
        ipv4 = or_null(list_of(whole(0, 32))), ipv6 = or_null(list_of(whole(0, 128))),
    }),
}

local function check_schedule(schedule, i, limit, zones)
    local where = "limit." .. limit.name
    if type(schedule) ~= "table" then
        fail(where, "schedules", i, schedule, "a table")
    end
    name(schedule.name, where, "schedules." .. i, "name")
    where = "schedule." .. limit.name .. "." .. schedule.name
    check_fields(schedule, where, "", SCHEDULE, OF_SCHEDULE)
    rate_of(schedule.rate, where, "", "rate", limit.algorithm)
    if schedule.week and not (schedule.zone and zones[schedule.zone]) then
        fail(where, "", "zone", schedule.zone, "one of the set's zones")
    end
end

-- A part of the key that is a path has a text for each path of the match, and one that has a name says it.
local function check_parts(limit, where)
    local paths = limit.match and limit.match.path or {}
    for i, part in ipairs(limit.key) do
        if part.kind == "path" and (#paths == 0 or #(part.texts or {}) ~= #paths) then
            fail(where, "key." .. i, "texts", part.texts, format("as many as match.path has, %d", #paths))
        elseif part.kind == "header" or part.kind == "query" or part.kind == "cookie" then
            text(part.name, where, "key." .. i, "name")
        end
    end
end

local function check_limit(limit, i, zones, pause)
    if type(limit) ~= "table" then
        fail("the set", "limits", i, limit, "a table")
    end
    name(limit.name, "the set", "limits." .. i, "name")
    local where = "limit." .. limit.name
    check_fields(limit, where, "", LIMIT, OF_LIMIT)
    check_parts(limit, where)
    if limit.cost_header then
        positive(limit.cost_max, where, "", "cost_max")
    else
        positive(limit.cost, where, "", "cost")
    end
    rate_of(limit.rate, where, "", "rate", limit.algorithm)
    for n, schedule in ipairs(limit.schedules or {}) do
        check_schedule(schedule, n, limit, zones)
    end
    for identity, rate in pairs(limit.overrides or {}) do
        rate_of(rate, where, "overrides", identity, limit.algorithm)
        pause()
    end
end

local function check_rules(rules, kind)
    for i, rule in ipairs(rules) do
        if type(rule) ~= "table" then
            fail("the set", kind, i, rule, "a table")
        end
        name(rule.name, "the set", kind .. "." .. i, "name")
        check_fields(rule, kind .. "." .. rule.name, "", RULE, CONDITIONS)
    end
end

local list = list_of(function() end)
local SET = {
    version = text, key_prefix = text, deny = list, allow = list, limits = list,
    defaults = object {
        hold_max_us = whole(0, 1000000), replicas = positive,
        ipv4_prefix = whole(1, 32), ipv6_prefix = whole(1, 128),
    },
}
local OF_SET = {zones = map_of(object {offset_us = whole(-MAX, MAX), changes = times})}

--- Raises where a set has another shape: where, what is there and what would be right. pause() is called
-- after each override.
function _M.check(set, pause)
    if type(set) ~= "table" then
        error("the set is " .. shown(set) .. ", want a table", 0)
    end
    check_fields(set, "the set", "", SET, OF_SET)
    check_rules(set.deny, "deny")
    check_rules(set.allow, "allow")
    for i, limit in ipairs(set.limits) do
        check_limit(limit, i, set.zones or {}, pause)
    end
end

return _M
