-- Composed by go generate from src/fixed_window.lua and src/lib; edit those.
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

-- What is wrong with ARGV[index], or nil when it is a whole number from low to high.
-- negative: what a minus before it stands for, where one may stand.
local function argument_error(argv, index, name, low, high, negative)
  local text = argv[index]
  local digits = string.match(text or "", negative and "^%-?(%d+)$" or "^%d+$")
  local value = tonumber(digits or "")
  -- The text of 2^53 is compared too: 2^53+1 would be read as the same double.
  if value and low <= value and value <= high and (value < 2^53 or digits == "9007199254740992") then
    return nil
  end
  local found = "is missing"
  if text then
    found = string.gsub(string.sub(text, 1, 40), "[^%w%p ]", "?")
    found = string.format(digits and "= %s" or '= "%s"', found)
  end
  local want = string.format(low == high and "%d" or "%d to %d", low, high)
  if negative then want = want .. ", or negative for " .. negative end
  return string.format("ERR ARGV[%d]: %s %s, want %s", index, name, found, want)
end
-- The number of the current window, the time to its end, and the count in it.
-- state is number:window_us:offset_us:count as text, or false; what does not parse, or was
-- counted in other windows, reads as never used.
local function fixed_used(state, now_us, window_us, offset_us)
  local since_us = now_us - offset_us
  local number = math.floor(since_us / window_us)
  local left_us = window_us - (since_us - number * window_us)
  local stored, window, offset, count = string.match(state or "", "^(%-?%d+):(%d+):(%d+):(%d+)$")
  if not stored then return number, left_us, 0 end
  stored, count = tonumber(stored), tonumber(count)
  if tonumber(window) ~= window_us or tonumber(offset) ~= offset_us or count >= 2^53 then
    return number, left_us, 0
  end
  if stored == number then return number, left_us, count end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and count > 0 then return stored, left_us + window_us, count end
  return number, left_us, 0
end
-- allowed, remaining, wait_us, reset_us of a fixed window with `count` counted, before it is
-- charged. With cost 0 it tells what a charge has left.
local function fixed_answer(count, left_us, limit, cost)
  local remaining, reset_us = limit - count, 0
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  if count > 0 then reset_us = left_us end
  if cost <= remaining then return 1, remaining, 0, reset_us end
  if cost > limit then return 0, remaining, -1, reset_us end
  return 0, remaining, left_us, reset_us
end

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
