--- The limits file of this nginx: the JSON that `authz compile` wrote. Every worker looks once a second
-- whether there is a newer one, and takes it whole or not at all.

local cjson = require "cjson"
local json = require "resty.authz.json"
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

local function check_limit(limit, pause)
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
        pause()
    end
end

local function check_set(set, pause)
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
        check_limit(limit, pause)
    end
end

local function compile(text, pause)
    local set = json.decode(text, pause)
    check_set(set, pause)
    return match.compile(set, pause)
end

-- The set in a text, or nil and what is wrong with it.
local function read_set(text, pause)
    local version = text:match('^{"version":"(' .. ("%x"):rep(64) .. ')"')
    if not version then
        return nil, "begins with " .. text:sub(1, 20) .. ', want {"version":"...", as authz compile writes it'
    end
    local sum = sha256(text, 32, HEAD_BYTES + 1)
    pause()
    if sum ~= version then
        return nil, "is cut short or changed: SHA-256 " .. sum .. ", want the version, " .. version
    end
    local ok, set = pcall(compile, text, pause)
    if not ok then
        return nil, "is from another release of authz: " .. tostring(set)
    end
    return set
end

-- What io's read() makes of a file: HEAD_BYTES, or "*a" for all of it.
local function read(path, what)
    local file, err = io.open(path, "rb")
    if not file then
        return nil, err
    end
    file:setvbuf("no") -- the head costs the head alone
    local text = file:read(what) or ""
    file:close()
    return text
end

-- Reads the file: the set and its head, or nil, nil and what is wrong.
local function load_file(path, pause)
    local text, err = read(path, "*a")
    if not text then
        return nil, nil, err
    end
    pause()
    local set
    set, err = read_set(text, pause)
    if not set then
        return nil, nil, path .. ": " .. err
    end
    return set, text:sub(1, HEAD_BYTES)
end

--- Reads a policy; returns nil and what is wrong if it cannot be used. A path that does not begin with
-- "/" is below nginx's prefix, as those in nginx.conf are.
function _M.new(path)
    if path:sub(1, 1) ~= "/" then
        path = ngx.config.prefix() .. path
    end
    local set, head, err = load_file(path, function() end)
    if not set then
        return nil, err
    end
    return setmetatable({
        path = path, set = set, head = head, polled_s = now_s(), loaded_s = now_s(), loading = false,
    }, _M)
end

-- Notes that a newer file cannot be used, which changes nothing; nil: none is. It is logged when it is
-- another failure than before.
local function note_failure(policy, err)
    if err and err ~= policy.failure then
        ngx.log(ngx.ERR, "authz: the limits stay as they are: ", err)
    end
    policy.failure = err
end

-- Lets nginx do what it has to, for a millisecond, whenever its clock has moved by one. (No time at all
-- would not do: nginx runs a timer that is due before it looks at its sockets.)
local function new_pause()
    local since_s = now_s()
    return function()
        ngx.update_time()
        if now_s() ~= since_s then
            ngx.sleep(0.001)
            since_s = now_s()
        end
    end
end

-- Reads a newer file and compiles it, by turns with the requests, which have the older set until this one
-- is whole.
local function load_newer(premature, policy)
    if premature then
        return
    end
    if not policy.failure then
        ngx.log(ngx.NOTICE, "authz: reading newer limits")
    end
    local set, head, err = load_file(policy.path, new_pause())
    note_failure(policy, err)
    if set then
        policy.set, policy.head, policy.loaded_s = set, head, now_s()
        ngx.log(ngx.NOTICE, "authz: new limits, version ", set.version)
    end
    policy.loading = false
end

-- Looks whether there is a newer file.
local function poll(policy)
    local head, err = read(policy.path, HEAD_BYTES)
    if head and head ~= policy.head and not policy.loading then
        policy.loading, err = ngx.timer.at(0, load_newer, policy)
    end
    if err or head == policy.head then
        note_failure(policy, err)
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
