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

-- include gcd
-- include bucket_used
-- include bucket_answer

-- The usual call is looked at once, as a whole; any other one argument after the other, for an
-- error that says which. * 1 reads digits in half the time of tonumber.
local limit, window_us, burst, cost, n, w = ARGV[1], ARGV[2], ARGV[3], ARGV[4], nil, nil
local right = cost and not ARGV[5] and #KEYS == 1
  and string.find(limit .. ":" .. window_us .. ":" .. burst .. ":" .. cost, "^%d+:%d+:%d+:%d+$")
if right then
  limit, window_us, burst, cost = limit * 1, window_us * 1, burst * 1, cost * 1
  right = limit >= 1 and limit < 2^53 and window_us >= 1000 and window_us <= 31622400000000
    and burst >= 0 and burst < 2^53 and cost >= 1 and cost < 2^53
end
if right then
  n = gcd(limit, window_us)
  n, w = limit / n, window_us / n
  right = burst <= 2^53 / w - 1
end
local now_us, spare_ms, charging = 0, 0, true
if not right then
-- include argument_error
  local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
    or argument_error(ARGV, 1, "limit", 1, 9007199254740991)
    or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
    or argument_error(ARGV, 4, "cost", 1, 9007199254740991)
    or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
    or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
    or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
  if problem then return redis.error_reply(problem) end
  n = gcd(ARGV[1] * 1, ARGV[2] * 1)
  n, w = ARGV[1] / n, ARGV[2] / n
  problem = argument_error(ARGV, 3, "burst", 0, math.floor(2^53 / w) - 1)
  if problem then return redis.error_reply(problem) end
  burst, cost = ARGV[3] * 1, ARGV[4] * 1
  now_us, charging = (ARGV[5] or 0) * 1, (ARGV[6] or 0) * 1 == 0
end
local capacity = (burst + 1) * w

if now_us == 0 then
  local time = redis.call("TIME")
  now_us = time[1] * 1000000 + time[2]
else
  spare_ms = 60000
end

local state = redis.pcall("GET", KEYS[1])
if state and #state == 0 and state.err then return state end -- another type's key
local used, ahead_us = bucket_used(state, now_us, n, w, capacity)
local allowed, remaining, wait_us, reset_us = bucket_answer(used, ahead_us, n, w, capacity, cost, charging)
if charging and allowed == 1 then
  -- Held until what was in the queue has drained: the reset before the charge.
  local _, _, _, hold_us = bucket_answer(used, ahead_us, n, w, capacity, cost)
  wait_us = hold_us
  redis.call("SET", KEYS[1], string.format("%d:%d:%d", used + cost * w, w, now_us + ahead_us),
    "PX", string.format("%d", (reset_us + 999) / 1000 + spare_ms)) -- %d drops a fraction
end
return {allowed, remaining, wait_us, reset_us}
