-- Composed by go generate from src/sliding_counter.lua and src/lib; edit those.
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
-- The number of the current window, the time to its end, and the counts of the window before
-- and of this one. Longer than a window to its end: the stored window lies ahead by one.
-- state is number:window_us:offset_us:previous:current as text, or false; what does not
-- parse, or was counted in other windows, reads as never used.
local function counter_used(state, now_us, window_us, offset_us)
  local since_us = now_us - offset_us
  local number = math.floor(since_us / window_us)
  local left_us = window_us - (since_us - number * window_us)
  local stored, window, offset, previous, current =
    string.match(state or "", "^(%-?%d+):(%d+):(%d+):(%d+):(%d+)$")
  if not stored then return number, left_us, 0, 0 end
  stored, previous, current = tonumber(stored), tonumber(previous), tonumber(current)
  if tonumber(window) ~= window_us or tonumber(offset) ~= offset_us
    or previous >= 2^53 or current >= 2^53 then
    return number, left_us, 0, 0
  end
  if stored == number then return number, left_us, previous, current end
  if stored == number - 1 then return number, left_us, current, 0 end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and previous + current > 0 then
    return stored, left_us + window_us, previous, current
  end
  return number, left_us, 0, 0
end
-- allowed, remaining, wait_us, reset_us of a sliding counter, before it is charged. With cost
-- 0 it tells what a charge has left. Of the window before, the share counts that a window
-- ending now still covers. Everything is counted in 1/window_us request, and
-- limit*window_us <= 2^53 keeps it exact; a product that passes 2^53 only ever refuses.
local function counter_answer(previous, current, left_us, limit, window_us, cost)
  local share_us = math.min(left_us, window_us)
  local remaining = math.floor(((limit - current) * window_us - previous * share_us) / window_us)
  if remaining < 0 then remaining = 0 end
  local reset_us = 0
  if current > 0 then
    reset_us = left_us + window_us
  elseif previous > 0 then
    reset_us = left_us
  end
  if cost <= remaining then return 1, remaining, 0, reset_us end
  if cost > limit then return 0, remaining, -1, reset_us end
  local room = limit - current - cost
  if room >= 0 then -- in this window, when the share has shrunk to what leaves room
    return 0, remaining, left_us - math.floor(room * window_us / previous), reset_us
  end
  -- In the next window, of which this one is then the window before.
  local share = math.floor((limit - cost) * window_us / current)
  return 0, remaining, left_us + window_us - share, reset_us
end

local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
  or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
  or argument_error(ARGV, 1, "limit", 1, math.floor(2^53 / ARGV[2]))
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
local number, left_us, previous, current = counter_used(state, now_us, window_us, offset_us)
local reply = {counter_answer(previous, current, left_us, limit, window_us, cost)}

if reply[1] == 1 and tonumber(ARGV[6] or 0) == 0 then
  current = current + cost
  reply = {counter_answer(previous, current, left_us, limit, window_us, 0)}
  redis.call("SET", KEYS[1],
    string.format("%d:%d:%d:%d:%d", number, window_us, offset_us, previous, current),
    "PX", string.format("%d", math.ceil(reply[4] / 1000) + spare_ms))
end
return reply
