-- leaky_bucket: one queue that drains `limit` requests per window, one after the other, with
-- room for `burst` more to wait behind the one being served.
--
-- KEYS  1  the bucket
-- ARGV  1  limit       1 to 2^53-1
--       2  window_us   1000 to 31622400000000 (366 days)
--       3  burst       0 or more, below 2^53 divided by window_us/gcd(limit, window_us)
--       4  cost        1 to 2^53-1
--       5  now_us      microseconds since 1970; absent or 0: the server's TIME
--       6  peek        1: charge nothing; absent or 0: charge if allowed
-- Reply    allowed (1 or 0), remaining, wait_us (allowed: hold the request for so long;
--          -1: no wait helps), reset_us
-- State    used:w:time_us, used in 1/w request

-- include argument_error
-- include gcd
-- include bucket_used
-- include bucket_answer

local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
  or argument_error(ARGV, 1, "limit", 1, 9007199254740991)
  or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
  or argument_error(ARGV, 4, "cost", 1, 9007199254740991)
  or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
  or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
  or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
if problem then return redis.error_reply(problem) end

local n, w, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])
local divisor = gcd(n, w)
n, w = n / divisor, w / divisor
problem = argument_error(ARGV, 3, "burst", 0, math.floor(2^53 / w) - 1)
if problem then return redis.error_reply(problem) end
local capacity = (ARGV[3] + 1) * w

local now_us, spare_ms = tonumber(ARGV[5] or 0), 60000
if now_us == 0 then
  local time = redis.call("TIME")
  now_us, spare_ms = time[1] * 1000000 + time[2], 0
end

local state = redis.pcall("GET", KEYS[1])
if type(state) == "table" then return state end -- another type's key
local used, ahead_us = bucket_used(state, now_us, n, w, capacity)
local reply = {bucket_answer(used, ahead_us, n, w, capacity, cost)}

if reply[1] == 1 and tonumber(ARGV[6] or 0) == 0 then
  used = used + cost * w
  local hold_us = reply[4] -- until what was in the queue has drained
  reply = {bucket_answer(used, ahead_us, n, w, capacity, 0)}
  reply[3] = hold_us
  redis.call("SET", KEYS[1], string.format("%d:%d:%d", used, w, now_us + ahead_us),
    "PX", string.format("%d", math.ceil(reply[4] / 1000) + spare_ms))
end
return reply
