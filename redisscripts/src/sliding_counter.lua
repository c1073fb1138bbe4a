-- sliding_counter: about `limit` in any window, from the counts of two aligned windows; it
-- assumes that the window before was evenly filled.
--
-- KEYS  1  the counters
-- ARGV  1  limit       1 to 2^53 divided by window_us
--       2  window_us   1000 to 31622400000000 (366 days)
--       3  offset_us   0 to window_us-1
--       4  cost        1 to 2^53-1
--       5  now_us      microseconds since 1970; absent or 0: the server's TIME
--       6  peek        1: charge nothing; absent or 0: charge if allowed
-- Reply    allowed (1 or 0), remaining, wait_us (-1: no wait helps), reset_us
-- State    number:window_us:offset_us:previous:current

-- include counter_used
-- include counter_answer

-- The usual call is looked at once, as a whole; any other one argument after the other, for an
-- error that says which. * 1 reads digits in half the time of tonumber.
local limit, window_us, offset_us, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local right = cost and not ARGV[5] and #KEYS == 1
  and string.find(limit .. ":" .. window_us .. ":" .. offset_us .. ":" .. cost, "^%d+:%d+:%d+:%d+$")
if right then
  limit, window_us, offset_us, cost = limit * 1, window_us * 1, offset_us * 1, cost * 1
  right = limit >= 1 and window_us >= 1000 and window_us <= 31622400000000 and cost >= 1
    and limit <= 2^53 / window_us and offset_us < window_us and cost < 2^53
end
local now_us, spare_ms, charging = 0, 0, true
if not right then
-- include argument_error
  local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
    or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
    or argument_error(ARGV, 1, "limit", 1, math.floor(2^53 / ARGV[2]))
    or argument_error(ARGV, 3, "offset_us", 0, ARGV[2] - 1)
    or argument_error(ARGV, 4, "cost", 1, 9007199254740991)
    or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
    or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
    or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
  if problem then return redis.error_reply(problem) end
  limit, window_us, offset_us, cost = ARGV[1] * 1, ARGV[2] * 1, ARGV[3] * 1, ARGV[4] * 1
  now_us, charging = (ARGV[5] or 0) * 1, (ARGV[6] or 0) * 1 == 0
end

if now_us == 0 then
  local time = redis.call("TIME")
  now_us = time[1] * 1000000 + time[2]
else
  spare_ms = 60000
end

local state = redis.pcall("GET", KEYS[1])
if state and #state == 0 and state.err then return state end -- another type's key
local number, left_us, previous, current = counter_used(state, now_us, window_us, offset_us)
local allowed, remaining, wait_us, reset_us =
  counter_answer(previous, current, left_us, limit, window_us, cost, charging)
if charging and allowed == 1 then
  redis.call("SET", KEYS[1],
    string.format("%d:%d:%d:%d:%d", number, window_us, offset_us, previous, current + cost),
    "PX", string.format("%d", (reset_us + 999) / 1000 + spare_ms)) -- %d drops a fraction
end
return {allowed, remaining, wait_us, reset_us}
