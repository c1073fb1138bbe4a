--- The limits file of this nginx: the JSON that `authz compile` wrote. Every worker looks once a second
-- whether there is a newer one, and takes it whole or not at all.

local cjson = require "cjson"
local match = require "resty.authz.match"
local now_s = require("resty.authz.nginx").now
local sha256 = require "resty.authz.sha256"

local _M = {}
_M.__index = _M

local POLL_S = 1

-- {"version":"SHA-256 of what follows"
local HEAD_BYTES = 77

local function words(text)
    local set = {}
    for word in text:gmatch("%S+") do
        set[word] = true
    end
    return set
end

-- What may stand where in the JSON. What was written for another release of the pack, which this one
-- would understand in part, is refused.
local SET = words "version key_prefix defaults deny allow limits"
local RULE = words "name match unless"
local LIMIT = words [[name match unless key missing cost cost_header cost_max algorithm rate
    shadow on_error overrides override_prefixes]]
local CONDITION = words "path host method zone ip header query cookie"
local PART = words "kind name head secret texts"
local RATE = words "unlimited limit window_us offset_us burst n w capacity share"

-- The words that stand for something.
local VALUES = {
    algorithm = words "token_bucket leaky_bucket fixed_window sliding_window sliding_counter",
    missing = words "skip deny share ip", on_error = words "allow local deny",
}
local KINDS = words "ip host method path path:raw zone header query cookie"

local function only(known, t, where)
    for name in pairs(t or {}) do
        if not known[name] then
            error("unknown " .. tostring(name) .. " in " .. where, 0)
        end
    end
end

local function check_rule(rule, known, where)
    where = where .. rule.name
    only(known, rule, where)
    only(CONDITION, rule.match, where)
    only(CONDITION, rule.unless, where)
    return where
end

local function check_rate(rate, where)
    only(RATE, rate, where)
    if rate.share then
        only(RATE, rate.share, where)
    end
end

local function check_limit(limit)
    local where = check_rule(limit, LIMIT, "limit.")
    for name, values in pairs(VALUES) do
        local value = limit[name]
        if not values[value or ""] and (value ~= nil or name ~= "missing") then
            error("unknown " .. name .. " " .. tostring(value) .. " in " .. where, 0)
        end
    end
    for _, part in ipairs(limit.key) do
        only(PART, part, where)
        if not KINDS[part.kind] then
            error("unknown kind of key part " .. tostring(part.kind) .. " in " .. where, 0)
        end
    end
    check_rate(limit.rate, where)
    for _, rate in pairs(limit.overrides or {}) do
        check_rate(rate, where)
    end
end

local function check_set(set)
    only(SET, set, "the set")
    for name in pairs(SET) do
        if not set[name] or set[name] == cjson.null then
            error("no " .. name .. " in the set", 0)
        end
    end
    for _, rule in ipairs(set.deny) do
        check_rule(rule, RULE, "deny.")
    end
    for _, rule in ipairs(set.allow) do
        check_rule(rule, RULE, "allow.")
    end
    for _, limit in ipairs(set.limits) do
        check_limit(limit)
    end
end

local function compile(text)
    local set = cjson.decode(text)
    check_set(set)
    return match.compile(set)
end

-- The set in a text, or nil and what is wrong with it.
local function read_set(text)
    local version = text:match('^{"version":"(' .. ("%x"):rep(64) .. ')"')
    if not version then
        return nil, "begins with " .. text:sub(1, 20) .. ', want {"version":"...", as authz compile writes it'
    end
    local sum = sha256(text:sub(HEAD_BYTES + 1), 32)
    if sum ~= version then
        return nil, "is cut short or changed: SHA-256 " .. sum .. ", want the version, " .. version
    end
    local ok, set = pcall(compile, text)
    if not ok then
        return nil, "is from another release of authz: " .. tostring(set)
    end
    return set
end

-- Reads the file if it does not begin with `head`: the set and the head, nothing if it does, or nil, nil
-- and what is wrong.
local function read_file(path, head)
    local file, err = io.open(path, "rb")
    if not file then
        return nil, nil, err
    end
    file:setvbuf("no") -- a look costs the head alone
    local got = file:read(HEAD_BYTES) or ""
    if got == head then
        file:close()
        return nil
    end
    local rest = file:read("*a")
    file:close()
    local set
    set, err = read_set(got .. (rest or ""))
    if not set then
        return nil, nil, path .. ": " .. err
    end
    return set, got
end

--- Reads a policy; returns nil and what is wrong if it cannot be used. A path that does not begin with
-- "/" is below nginx's prefix, as those in nginx.conf are.
function _M.new(path)
    if path:sub(1, 1) ~= "/" then
        path = ngx.config.prefix() .. path
    end
    local set, head, err = read_file(path)
    if not set then
        return nil, err
    end
    return setmetatable({path = path, set = set, head = head, polled_s = now_s(), loaded_s = now_s()}, _M)
end

-- Takes a newer file. One that cannot be used changes nothing; failure says why, and is logged when it
-- is another than before.
local function poll(policy)
    local set, head, err = read_file(policy.path, policy.head)
    if set or err then
        ngx.update_time() -- a timeout that is set next does not begin before the file was read and compiled
    end
    if err and err ~= policy.failure then
        ngx.log(ngx.ERR, "authz: the limits stay as they are: ", err)
    end
    policy.failure = err
    if set then
        policy.set, policy.head, policy.loaded_s = set, head, now_s()
        ngx.log(ngx.NOTICE, "authz: new limits, version ", set.version)
    end
end

--- The newest set that is whole.
function _M.current(policy)
    local now = now_s()
    if now >= policy.polled_s + POLL_S or now < policy.polled_s then
        policy.polled_s = now
        poll(policy)
    end
    return policy.set
end

return _M
