-- The buckets in a lua_shared_dict: one machine's own, for all workers of its nginx. It gives the
-- answers of the script `take`, since it runs the same functions on the same stored text.
--
-- A request reads and writes several keys as one, so workers take turns: a lock is an entry that
-- only one of them can add. Arithmetic that needs no lock was no choice: a dict has an atomic incr
-- and nothing like compare-and-swap, which is too little for a refill, a log or two keys at once.
-- One lock is enough: it is held for some microseconds of arithmetic and never across a yield, so
-- that whoever finds it taken spins. It expires, for a worker that was killed while it held it.
--
-- The dict is bounded, and drops what was used longest ago when it is full. A dropped bucket reads
-- as never used; no request fails for want of memory.

local ffi = require "ffi"

local floor, max, ceil = math.floor, math.max, math.ceil
local format, sub, rep = string.format, string.sub, string.rep

local LOCK = "\0lock" -- no bucket has such a key
local LOCK_SECONDS = 1 -- more than a worker is ever kept off its processor between two lines
local SPINS = 200
local LOG = "timelog:" -- begins the stored log of a sliding window; doubles, oldest first, follow

local _M = {}
_M.__index = _M

--- new is the store in dict, an ngx.shared.NAME. functions are scripts.fragments; scope is what its
-- keys begin with, which tells apart the stores in one dict; count(name) is told of "evicted", when live
-- entries had to go, and "full", when that did not help.
function _M.new(dict, functions, scope, count)
    return setmetatable({dict = dict, functions = functions, scope = scope, count = count}, _M)
end

-- Takes the lock in the name of this worker.
local function lock(self)
    local dict, pid, tries = self.dict, ngx.worker.pid(), 0
    while true do
        local added, err = dict:add(LOCK, pid, LOCK_SECONDS)
        if added then return end
        tries = tries + 1
        if tries >= SPINS then
            -- Each try made room: a dict that has none for this entry even so keeps no buckets either.
            if err ~= "exists" then return self.count("full") end
            ngx.sleep(0.001)
        end
    end
end

-- A worker that was stopped for longer than the lock lasts leaves it to whoever has it now.
local function unlock(self)
    if self.dict:get(LOCK) == ngx.worker.pid() then self.dict:delete(LOCK) end
end

-- How many of the first n times, which ascend, are not after time_us.
local function not_after(times, n, time_us)
    local low, high = 0, n
    while low < high do
        local middle = floor((low + high) / 2)
        if times[middle] <= time_us then low = middle + 1 else high = middle end
    end
    return low
end

-- What the log of a sliding window says. Counted are the times t with now-window < t <= now+window.
local function look_log(dict, key, now_us, limit, window_us, cost)
    local state = dict:get(key)
    if type(state) ~= "string" or sub(state, 1, #LOG) ~= LOG or #state % 8 ~= 0 then state = LOG end
    local times, n = ffi.cast("const double *", state) + 1, #state / 8 - 1
    local first, last = not_after(times, n, now_us - window_us), not_after(times, n, now_us + window_us)
    local count = last - first
    return {
        state = state, first = first, last = last, count = count,
        before = not_after(times, n, now_us),
        newest_us = count > 0 and times[last - 1] or 0,
        leaves_us = count + cost > limit and cost <= limit and times[first + count + cost - limit - 1] or 0,
    }
end

-- What is used of a token bucket that was never used, nil if nothing.
local function cold_of(rate)
    return rate.initial > 0 and (rate.burst - rate.initial) * rate.w or nil
end

-- Reads a key: what is used of it now.
local function look(self, check, now_us)
    local algorithm, rate, f = check.limit.algorithm, check.rate, self.functions
    if algorithm == "sliding_window" then
        return look_log(self.dict, self.scope .. check.key, now_us, rate.limit, rate.window_us, check.cost)
    end
    local state, found = self.dict:get(self.scope .. check.key), {}
    if type(state) ~= "string" then state = false end
    if algorithm == "fixed_window" then
        found.number, found.left_us, found.count =
            f.fixed_used(state, now_us, rate.window_us, rate.offset_us)
    elseif algorithm == "sliding_counter" then
        found.number, found.left_us, found.previous, found.current =
            f.counter_used(state, now_us, rate.window_us, rate.offset_us)
    else
        found.used, found.ahead_us =
            f.bucket_used(state, now_us, rate.n, rate.w, rate.capacity, nil, cold_of(rate))
    end
    return found
end

-- allowed, remaining, wait_us, reset_us for this cost, not charged.
local function answer(self, check, found, now_us, cost)
    local algorithm, rate, f = check.limit.algorithm, check.rate, self.functions
    if algorithm == "sliding_window" then
        return f.log_answer(found.count, found.newest_us, found.leaves_us, now_us, rate.limit,
            rate.window_us, cost)
    elseif algorithm == "fixed_window" then
        return f.fixed_answer(found.count, found.left_us, rate.limit, cost)
    elseif algorithm == "sliding_counter" then
        return f.counter_answer(found.previous, found.current, found.left_us, rate.limit,
            rate.window_us, cost)
    end
    return f.bucket_answer(found.used, found.ahead_us, rate.n, rate.w, rate.capacity, cost)
end

local packed = ffi.new("double[1]")

-- What is counted of the log, with now_us `cost` times in its place.
local function charged_log(found, now_us, cost)
    packed[0] = now_us
    found.count, found.newest_us = found.count + cost, max(found.newest_us, now_us)
    return LOG .. sub(found.state, 9 + 8 * found.first, 8 + 8 * found.before)
        .. rep(ffi.string(packed, 8), cost)
        .. sub(found.state, 9 + 8 * found.before, 8 + 8 * found.last)
end

-- The state that a charge leaves, as text.
local function charged(check, found, now_us)
    local algorithm, rate, cost = check.limit.algorithm, check.rate, check.cost
    if algorithm == "sliding_window" then
        return charged_log(found, now_us, cost)
    elseif algorithm == "fixed_window" then
        found.count = found.count + cost
        return format("%d:%d:%d:%d", found.number, rate.window_us, rate.offset_us, found.count)
    elseif algorithm == "sliding_counter" then
        found.current = found.current + cost
        return format("%d:%d:%d:%d:%d", found.number, rate.window_us, rate.offset_us,
            found.previous, found.current)
    end
    found.used = found.used + cost * rate.w
    return format("%d:%d:%d", found.used, rate.w, now_us + found.ahead_us)
end

--- set writes an entry of the dict, and lets others go for it. A few tries: each frees up to thirty
-- entries, which for a long log may not be enough.
function _M:set(key, value, seconds, flags)
    for _ = 1, 10 do
        local stored, _, evicted = self.dict:set(key, value, seconds, flags or 0)
        if evicted then self.count("evicted") end
        if stored then return end
    end
    self.count("full")
end

-- An expiry only frees memory: it comes when the key would read as never used, which for a bucket that
-- starts with less than its burst is when it has been full for as long as it takes to fill. With a
-- caller's own now it comes a minute later, since that clock and nginx's need not agree.
local function charge(self, check, found, result, now_us, spare_ms)
    local state, _ = charged(check, found, now_us), nil
    if check.limit.algorithm == "leaky_bucket" then result.wait_us = result.reset_us end -- the hold
    _, result.remaining, _, result.reset_us = answer(self, check, found, now_us, 0)
    local rate, kept_us = check.rate, 0
    if rate.initial > 0 then kept_us = ceil(rate.capacity / rate.n) end
    self:set(self.scope .. check.key, state, (ceil((result.reset_us + kept_us) / 1000) + spare_ms) / 1000)
end

-- Evaluates every check, and charges all that allow when none but shadows refuses.
local function take(self, now_us, spare_ms, checks, peek)
    local results, founds, admitted = {}, {}, true
    for i = 1, #checks do
        local check = checks[i]
        local found = look(self, check, now_us)
        local allowed, remaining, wait_us, reset_us = answer(self, check, found, now_us, check.cost)
        results[i] = {allowed = allowed == 1, remaining = remaining, wait_us = wait_us, reset_us = reset_us}
        founds[i] = found
        if allowed == 0 and not check.limit.shadow then admitted = false end
    end
    if admitted and not peek then
        for i = 1, #checks do
            if results[i].allowed then charge(self, checks[i], founds[i], results[i], now_us, spare_ms) end
        end
    end
    return results
end

--- now_us is nginx's clock in microseconds, to a millisecond.
function _M.now_us()
    ngx.update_time()
    return floor(ngx.now() * 1000 + 0.5) * 1000
end

--- take charges every check of a request or none, and returns a result for each: allowed (true or
-- false), remaining, wait_us, reset_us. now_us nil or 0: nginx's clock. A peek charges nothing.
-- It may yield only before it begins.
function _M:take(now_us, checks, peek)
    if not peek then lock(self) end
    local spare_ms = 60000
    if not now_us or now_us == 0 then now_us, spare_ms = self.now_us(), 0 end
    local results = take(self, now_us, spare_ms, checks, peek)
    if not peek then unlock(self) end
    return results
end

return _M
