--- Which rules meet a request, and whose buckets it charges: the limits file as `authz compile` writes
-- it (limits/json.go says what is in it), compiled once and asked for every request.

local index = require "resty.authz.index"
local ip = require "resty.authz.ip"
local keys = require "resty.authz.key"
local memo = require "resty.authz.memo"
local path = require "resty.authz.path"
local pattern = require "resty.authz.pattern"
local schedule = require "resty.authz.schedule"
local slots = require "resty.authz.slot"

local target_of, address_of = memo.of(path.target), memo.of(ip.parse)
local candidates, first_of = index.candidates, pattern.first
local lacks_part, key_of, cost_of = keys.lacks_part, keys.of, keys.cost_of
local begin, value_of = slots.begin, slots.value
local in_force = schedule.in_force

local _M = {}
local set_mt = {}
set_mt.__index = set_mt

-- A condition is a match or unless table: all of it must hold.
local function compile_condition(sp, fields)
    local condition = {fields = {}}
    local function add(slot, texts, sep)
        local list = texts and pattern.list(texts, sep)
        table.insert(condition.fields, list and {slot = slot, texts = texts, any_of = list})
        return list
    end
    local paths
    for i, text in ipairs(sp.path or {}) do
        paths = paths or {}
        paths[i] = path.decode(text)
    end
    condition.paths = add(slots.PATH, paths, "/")
    add(slots.HOST, sp.host, ".")
    add(slots.METHOD, sp.method)
    add(slots.ZONE, sp.zone)
    for _, kind in ipairs {"header", "cookie", "query"} do
        for name, texts in pairs(sp[kind] or {}) do
            add(slots.of(fields, kind, name), texts)
        end
    end
    if sp.ip then
        condition.ip_texts, condition.ip = sp.ip, ip.new_prefixes()
        for _, prefix in ipairs(sp.ip) do
            ip.at_prefix(condition.ip, prefix, function() return true end)
        end
    end
    return condition
end

-- What was left out of a rate is written out, also in its share, which is the rate itself when there
-- is one instance.
local function complete(rate)
    rate.unlimited = rate.unlimited or false
    for _, name in ipairs {"offset_us", "burst", "initial", "n", "w", "capacity"} do
        rate[name] = rate[name] or 0
    end
    if rate.share then
        complete(rate.share)
    end
    rate.share = rate.share or rate
    return rate
end

local function compile_rule(set, sp, verdict)
    local rule = {
        name = sp.name, verdict = verdict,
        match = compile_condition(sp.match or {}, set.fields),
        unless = sp.unless and compile_condition(sp.unless, set.fields),
    }
    table.insert(set.rules, rule)
    return rule
end

--- Compiles a policy, the decoded JSON. Its limits and rates are what a match hands out; nobody may
-- change them from here on. pause() is called after every rule and override; it may be nil.
function _M.compile(policy, pause)
    pause = pause or function() end
    local set = {
        version = policy.version, key_prefix = policy.key_prefix, defaults = policy.defaults,
        limits = policy.limits, fields = slots.new(), rules = {},
    }
    for _, sp in ipairs(policy.deny) do
        compile_rule(set, sp, "deny")
    end
    for _, sp in ipairs(policy.allow) do
        compile_rule(set, sp, "allow")
    end
    local parts, zones = {}, schedule.zones(policy.zones)
    for _, limit in ipairs(policy.limits) do
        local rule = compile_rule(set, limit, "limits")
        complete(limit.rate)
        for _, one in ipairs(limit.schedules or {}) do
            complete(one.rate)
        end
        rule.schedules = schedule.compile(limit, zones)
        for _, rate in pairs(limit.overrides or {}) do
            complete(rate)
            pause()
        end
        rule.limit = limit
        rule.key = keys.compile(policy, limit, rule.match.paths, set.fields, parts)
        pause()
    end
    local matches = {}
    for i, rule in ipairs(set.rules) do
        matches[i] = rule.match
    end
    set.index, set.scratch = index.new(matches, pause), slots.scratch(set.fields)
    return setmetatable(set, set_mt)
end

local function holds(condition, q)
    local fields = condition.fields
    for i = 1, #fields do
        local f = fields[i]
        local value = value_of(q, f.slot)
        if not value then
            return false
        end
        local list = f.any_of
        if not first_of(list, value, list.globs[1] and slots.pieces(q, f.slot)) then
            return false
        end
    end
    return not condition.ip or ip.contains(condition.ip, q.address)
end

-- Adds the check of a limit that the request meets. false: the limit blocks the request, because a
-- part of its key is missing.
local function charge(m, rule, q)
    local limit, key = rule.limit, rule.key
    if lacks_part(q, key) then
        m.missing[#m.missing + 1] = limit
        if key.missing == "deny" and not limit.shadow then
            return false
        end
        if key.missing == "deny" or key.missing == "skip" then -- a shadow never blocks
            return true
        end
    end
    local redis_key, rate = key_of(q, key)
    local until_us
    if not rate then
        rate = limit.rate
        if rule.schedules then
            rate, until_us = in_force(rule.schedules, q.attrs.now_us)
        end
    end
    if rate.unlimited then
        m.unlimited[#m.unlimited + 1] = limit
        return true
    end
    local check = {limit = limit, rate = rate, key = redis_key, cost = cost_of(q, key)}
    if until_us then
        check.until_us = until_us
    end
    m.checks[#m.checks + 1] = check
    return true
end

-- Asks a rule; true when nothing that follows matters.
local function ask(m, rule, q)
    if not holds(rule.match, q) or rule.unless and holds(rule.unless, q) then
        return false
    end
    if rule.limit and charge(m, rule, q) then
        return false
    end
    m.verdict, m.rule, m.limit = rule.limit and "deny" or rule.verdict, rule.name, rule.limit
    m.checks, m.unlimited = {}, {}
    return true
end

--- Finds what meets a request: attrs is {method, target (as $request_uri has it), host, ip (text; nil:
-- unknown), zone, cookie (the Cookie header), header (a method that returns the value of a header by
-- its name in lower case, lines joined by ", "), now_us (when it is decided, microseconds since 1970; read
-- where a limit has schedules)}. Absent and empty are the same.
--
-- Returns verdict ("none": no rule meets it, "allow", "deny", or "limits": checks decide), rule (the name
-- of the allow or deny rule, or of the limit whose missing part denies) and limit (that limit), checks by
-- name, each with limit, rate, key (the Redis key), cost and, where a schedule may change the rate, until_us,
-- before which none does; the limits that are unlimited for it or miss a
-- part of their key, and address, in bytes. A target that nginx answers with 400 is denied by no rule.
function set_mt.match(set, attrs)
    local ip_text = attrs.ip
    local address = ip_text and address_of(ip_text)
    local m = {
        verdict = "none", rule = "", limit = nil, address = address,
        checks = {}, unlimited = {}, missing = {},
    }
    local request_path, query = target_of(attrs.target)
    if not request_path then
        m.verdict = "deny"
        return m
    end
    local q = set.scratch
    begin(q, attrs, request_path, query, address)
    local found, rules = candidates(set.index, q), set.rules
    for i = 1, #found do
        if ask(m, rules[found[i]], q) then
            return m
        end
    end
    if #m.checks + #m.unlimited > 0 then
        m.verdict = "limits"
    end
    return m
end

return _M
