--- How large the shared dicts have to be at least, as far as that is known at init.

local ceil, format, max = math.ceil, string.format, math.max

local _M = {}

local PAGE = 4096
local PAGE_NOTE = 24 -- what nginx notes of each page, in the dict itself
local PAGES_ELSE = 7 -- three are nginx's, the others for entries of other sizes
local ENTRY_ELSE = 512 -- key and node of an entry, and any bucket but a log
local COUNTER = 256

-- The capacity, in kilobytes, of a dict that holds an entry of so many bytes beside smaller ones.
local function kilobytes(bytes)
    local pages = ceil(bytes / PAGE) + PAGES_ELSE
    return ceil(pages * (PAGE + PAGE_NOTE) / 1024)
end

local function too_small(name, want_k, why)
    local has_k = ngx.shared[name]:capacity() / 1024
    if has_k < want_k then
        return format("lua_shared_dict %s %dk is too small, want at least %dk%s", name, has_k, want_k, why)
    end
end

-- The most requests that a sliding window of the set may have to keep in the dict, and its limit. Beside
-- Redis that is this machine's share, of limits that are decided here when Redis is away.
local function longest_log(set, beside_redis)
    local most, of = 0, nil
    local function consider(limit, rate)
        local count = beside_redis and rate.share.limit or rate.limit
        if count and count > most then -- "unlimited" has none
            most, of = count, limit
        end
    end
    for _, limit in ipairs(set.limits) do
        if limit.algorithm == "sliding_window" and not (beside_redis and limit.on_error == "deny") then
            consider(limit, limit.rate)
            for _, schedule in ipairs(limit.schedules or {}) do
                consider(limit, schedule.rate)
            end
            for _, rate in pairs(limit.overrides or {}) do
                consider(limit, rate)
            end
        end
    end
    return most, of
end

--- What is wrong with the size of the dict of buckets, or nil. set is the policy's, if there is one.
function _M.buckets_error(name, set, beside_redis)
    local count, limit = 0, nil
    if set then
        count, limit = longest_log(set, beside_redis)
    end
    return too_small(name, kilobytes(8 * count + ENTRY_ELSE),
        limit and format(": limit.%s keeps 8 bytes for each of up to %d requests", limit.name, count) or "")
end

--- What is wrong with the size of the dict of counters, or nil.
function _M.counters_error(name, set)
    local limits, rules = set and #set.limits or 0, set and #set.rules or 0
    local counters = 50 + 5 * limits + max(0, rules - limits)
    return too_small(name, kilobytes(counters * COUNTER), format(": it has %d counters to keep", counters))
end

return _M
