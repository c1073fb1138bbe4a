-- fixed_window: at most `limit` in each window; windows are aligned, the first one of 1970
-- begins at `offset_us`.
--
-- KEYS  1  the window
-- ARGV  1  limit       1 to 2^53-1
--       2  window_us   1000 to 31622400000000 (366 days)
--       3  offset_us   0 to window_us-1
--       4  cost        1 to 2^53-1
--       5  now_us      microseconds since 1970; absent or 0: the server's TIME
--       6  peek        1: charge nothing; absent or 0: charge if allowed
-- Reply    allowed (1 or 0), remaining, wait_us (-1: no wait helps), reset_us
-- State    number:window_us:offset_us:count

-- include argument_error
-- include fixed_used
-- include fixed_answer

local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
  or argument_error(ARGV, 1, "limit", 1, 9007199254740991)
  or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
  or argument_error(ARGV, 3, "offset_us", 0, ARGV[2] - 1)
  or argument_error(ARGV, 4, "cost", 1, 9007199254740991)
  or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
  or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
  or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
if problem then return redis.error_reply(problem) end
local limit, window_us, offset_us, cost =
  tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

local now_us, spare_ms = tonumber(ARGV[5] or 0), 60000
if now_us == 0 then
  local time = redis.call("TIME")
  now_us, spare_ms = time[1] * 1000000 + time[2], 0
end

local state = redis.pcall("GET", KEYS[1])
if type(state) == "table" then return state end -- another type's key
local number, left_us, count = fixed_used(state, now_us, window_us, offset_us)
local reply = {fixed_answer(count, left_us, limit, cost)}

if reply[1] == 1 and tonumber(ARGV[6] or 0) == 0 then
  count = count + cost
  reply = {fixed_answer(count, left_us, limit, 0)}
  redis.call("SET", KEYS[1], string.format("%d:%d:%d:%d", number, window_us, offset_us, count),
    "PX", string.format("%d", math.ceil(reply[4] / 1000) + spare_ms))
end
return reply
