--- The numbers of one limit that a caller brings, for one key: checked, and made a check as the policy's
-- limits make one. What is wrong with them is the caller's mistake.

local redis = require "resty.authz.redis"
local sha256 = require "resty.authz.sha256"

local format, sub, floor = string.format, string.sub, math.floor

local _M = {}

local MAX = 9007199254740991 -- 2^53-1
local LONGEST_KEY = 65535 -- bytes, the longest that a shared dict takes
local BEGINNING, DIGEST_BYTES = 64, 16
local OF_ALL = {limit = true, window_us = true, cost = true, now_us = true, peek = true}
local OF = {
    token_bucket = {burst = true, initial = true}, leaky_bucket = {burst = true},
    fixed_window = {offset_us = true},
    sliding_window = {}, sliding_counter = {offset_us = true},
}

local function whole(numbers, name, low, high)
    local value = numbers[name]
    if type(value) == "number" and value >= low and value <= high and value % 1 == 0 then
        return nil
    end
    local found = tostring(value)
    if type(value) == "number" then
        found = format(value % 1 == 0 and "%.0f" or "%.17g", value)
    elseif type(value) == "string" then
        found = format("%q", value)
    end
    return format("%s = %s, want %d to %d", name, found, low, high)
end

local function unknown(algorithm, numbers)
    for name in pairs(numbers) do
        if not OF_ALL[name] and not OF[algorithm][name] then
            return tostring(name) .. " is not one of its numbers"
        end
    end
    if numbers.peek ~= nil and type(numbers.peek) ~= "boolean" then
        return format("peek = %s, want true or false", tostring(numbers.peek))
    end
end

-- The bounds of the script of the algorithm.
local function bounds_error(algorithm, numbers, gcd)
    local most_limit, most_cost = MAX, MAX
    if algorithm == "sliding_window" then
        most_limit, most_cost = 10000, 100
    elseif algorithm == "sliding_counter" then
        most_limit = floor(2^53 / numbers.window_us)
    end
    local problem = whole(numbers, "limit", 1, most_limit) or whole(numbers, "cost", 1, most_cost)
        or whole(numbers, "now_us", 0, MAX)
    if problem then
        return problem
    elseif OF[algorithm].burst then
        local w = numbers.window_us / gcd(numbers.limit, numbers.window_us)
        local most = floor(2^53 / w)
        if algorithm == "leaky_bucket" then
            return whole(numbers, "burst", 0, most - 1) -- one more is being served
        end
        return whole(numbers, "burst", 1, most)
            or numbers.initial and whole(numbers, "initial", 1, numbers.burst)
    end
    return whole(numbers, "offset_us", 0, numbers.window_us - 1)
end

-- The key that is stored. A longer one stands there as its beginning, by which Redis may allow it, and its
-- digest, which is written as that of a long identity is.
local function stored_key(key)
    if #key <= LONGEST_KEY then
        return key
    end
    return sub(key, 1, BEGINNING) .. "*" .. sha256(key, DIGEST_BYTES)
end

--- Returns the check of these numbers, or nil and what is wrong with them. gcd is the scripts' own.
-- numbers: limit, window_us; burst for token_bucket (limit, if left out) and leaky_bucket (0); initial, which
-- a token_bucket that was never used holds (burst); offset_us for fixed_window and sliding_counter (0);
-- cost (1).
function _M.check(algorithm, key, given, gcd)
    if type(key) ~= "string" or key == "" then
        return nil, format("key is a %s, want a text that is not empty", type(key))
    elseif type(given) ~= "table" then
        return nil, format("the numbers are a %s, want a table: {limit = 5, window_us = 60000000}",
            type(given))
    end
    local numbers = {
        limit = given.limit, window_us = given.window_us, burst = given.burst,
        initial = given.initial,
        offset_us = given.offset_us or 0, cost = given.cost or 1, now_us = given.now_us or 0,
    }
    numbers.burst = numbers.burst or algorithm == "token_bucket" and numbers.limit or 0
    local problem = unknown(algorithm, given) or whole(numbers, "window_us", 1000, 31622400000000)
        or bounds_error(algorithm, numbers, gcd)
    if problem then
        return nil, problem
    end
    local rate = {
        limit = numbers.limit, window_us = numbers.window_us, offset_us = numbers.offset_us,
        burst = numbers.burst, initial = numbers.initial ~= numbers.burst and numbers.initial or 0,
    }
    if OF[algorithm].burst then
        local divisor = gcd(rate.limit, rate.window_us)
        rate.n, rate.w = rate.limit / divisor, rate.window_us / divisor
        rate.capacity = (algorithm == "leaky_bucket" and rate.burst + 1 or rate.burst) * rate.w
    end
    local limit = {algorithm = algorithm}
    return {
        limit = limit, rate = rate, key = stored_key(key), cost = numbers.cost, now_us = numbers.now_us,
        peek = given.peek,
        own = redis.words(limit, rate).own,
    }
end

return _M
