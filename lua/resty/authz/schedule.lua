--- When a limit has other numbers. limits/schedule.go and limits/zone.go say the same in Go; the time zones
-- that it needs stand in the policy.

local ceil, floor, huge, max, min = math.ceil, math.floor, math.huge, math.max, math.min

local _M = {}

local DAY_US = 24 * 3600 * 1000000
local WEEK_US = 7 * DAY_US
local MONDAY_US = 4 * DAY_US -- 1970 began on a Thursday

-- Exact for whole numbers below 2^53, whose quotient may not be.
local function modulo(a, b)
    local rest = a - floor(a / b) * b
    return rest < 0 and rest + b or rest
end

-- offset_us[n] counts after n changes.
local function compile_zone(sp)
    local zone = {at_us = {}, offset_us = {[0] = sp.offset_us}}
    for n, change in ipairs(sp.changes) do
        zone.at_us[n], zone.offset_us[n] = change[1], change[2]
    end
    return zone
end

--- Compiles the zones of a policy, by name.
function _M.zones(sp)
    local zones = {}
    for name, zone in pairs(sp or {}) do
        zones[name] = compile_zone(zone)
    end
    return zones
end

--- Compiles the schedules of a limit; nil if it has none.
function _M.compile(limit, zones)
    if not limit.schedules then
        return nil
    end
    local compiled = {own = limit.rate, rate = limit.rate, from_us = 0, until_us = 0}
    for i, sp in ipairs(limit.schedules) do
        compiled[i] = {
            rate = sp.rate, from_us = sp.from_us or -huge, until_us = sp.until_us or huge,
            week = sp.week, zone = zones[sp.zone],
        }
    end
    return compiled
end

-- How many changes there have been.
local function changes(zone, now_us)
    local at_us = zone.at_us
    local low, high = 0, #at_us
    while low < high do
        local middle = ceil((low + high) / 2)
        if at_us[middle] <= now_us then
            low = middle
        else
            high = middle - 1
        end
    end
    return low
end

-- What counts as the local time: more than one while clocks are put back.
local function local_time(zone, now_us)
    local at_us, offset_us, n = zone.at_us, zone.offset_us, changes(zone, now_us)
    local from_us = now_us + offset_us[n]
    local to_us = from_us
    if n > 0 then
        to_us = max(to_us, at_us[n] + offset_us[n - 1] - 1)
    end
    if n < #at_us then
        from_us = min(from_us, at_us[n + 1] + offset_us[n + 1])
    end
    return from_us, to_us
end

local function holds(s, now_us)
    if now_us < s.from_us or now_us >= s.until_us then
        return false
    end
    local week = s.week
    if not week then
        return true
    end
    local from_us, to_us = local_time(s.zone, now_us)
    local at_us = modulo(from_us - MONDAY_US, WEEK_US)
    to_us = to_us + at_us - from_us
    for i = 1, #week do
        local begin_us, end_us = week[i][1], week[i][2]
        if begin_us <= to_us and end_us > at_us or begin_us <= to_us - WEEK_US then
            return true
        end
    end
    return false
end

-- A time before which holds does not change.
local function settled_us(s, now_us)
    if now_us < s.from_us then
        return s.from_us
    elseif now_us >= s.until_us then
        return huge
    end
    local until_us, week, zone = s.until_us, s.week, s.zone
    if not week then
        return until_us
    end
    local n = changes(zone, now_us)
    until_us = min(until_us, zone.at_us[n + 1] or huge)
    local at_us = now_us + zone.offset_us[n] - MONDAY_US
    for i = 1, #week do
        until_us = min(until_us, now_us + WEEK_US - modulo(at_us - week[i][1], WEEK_US),
            now_us + WEEK_US - modulo(at_us - week[i][2], WEEK_US))
    end
    return until_us
end

--- The limit's own numbers at a time, in microseconds since 1970, and until when no schedule changes them.
-- They are looked up again only when they may have changed.
function _M.in_force(compiled, now_us)
    if now_us < compiled.from_us or now_us >= compiled.until_us then
        local rate, until_us = compiled.own, huge
        for i = 1, #compiled do
            local s = compiled[i]
            until_us = min(until_us, settled_us(s, now_us))
            if holds(s, now_us) then
                rate = s.rate
            end
        end
        compiled.rate, compiled.from_us, compiled.until_us = rate, now_us, until_us
    end
    return compiled.rate, compiled.until_us
end

return _M
