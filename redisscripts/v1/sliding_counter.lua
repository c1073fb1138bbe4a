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

-- The number of the current window, the time to its end, and the counts of the window before
-- and of this one. Longer than a window to its end: the stored window lies ahead by one.
-- state is number:window_us:offset_us:previous:current as text, or false; what does not
-- parse, or was counted in other windows, reads as never used.
-- pattern: what such a state of these windows matches, if the caller has made it before.
local function counter_used(state, now_us, window_us, offset_us, pattern)
  local since_us = (now_us - offset_us) % window_us
  local number, left_us = (now_us - offset_us - since_us) / window_us, window_us - since_us
  if not state then return number, left_us, 0, 0 end
  local stored, previous, current = string.match(state,
    pattern or string.format("^(%%-?%%d+):%d:%d:(%%d+):(%%d+)$", window_us, offset_us))
  if not stored then return number, left_us, 0, 0 end
  -- * 1 reads digits in half the time of tonumber, which reads them twice.
  stored, previous, current = stored * 1, previous * 1, current * 1
  if previous >= 2^53 or current >= 2^53 then return number, left_us, 0, 0 end
  if stored == number then return number, left_us, previous, current end
  if stored == number - 1 then return number, left_us, current, 0 end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and previous + current > 0 then
    return stored, left_us + window_us, previous, current
  end
  return number, left_us, 0, 0
end
-- allowed, remaining, wait_us, reset_us of a sliding counter, before it is charged. charging:
-- if it allows, the answer after the charge. Of the window before, the share counts that a
-- window ending now still covers. Everything is counted in 1/window_us request, and
-- limit*window_us <= 2^53 keeps it exact; a product that passes 2^53 only ever refuses.
local function counter_answer(previous, current, left_us, limit, window_us, cost, charging)
  local share_us, wait_us, reset_us = left_us, 0, 0
  if share_us > window_us then share_us = window_us end
  -- x - x % 1 is floor(x), without a call.
  local remaining = ((limit - current) * window_us - previous * share_us) / window_us
  remaining = remaining - remaining % 1
  if remaining < 0 then remaining = 0 end
  local allowed = cost <= remaining and 1 or 0
  if allowed == 0 then
    local room = limit - current - cost
    if cost > limit then
      wait_us = -1
    elseif room >= 0 then -- in this window, when the share has shrunk to what leaves room
      wait_us = left_us - math.floor(room * window_us / previous)
    else -- in the next one, of which this one is then the window before
      wait_us = left_us + window_us - math.floor((limit - cost) * window_us / current)
    end
  elseif charging then
    current, remaining = current + cost, remaining - cost
  end
  if current > 0 then
    reset_us = left_us + window_us
  elseif previous > 0 then
    reset_us = left_us
  end
  return allowed, remaining, wait_us, reset_us
end

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
