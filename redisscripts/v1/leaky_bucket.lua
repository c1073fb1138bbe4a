-- Composed by go generate from src/leaky_bucket.lua and src/lib; edit those.
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

-- The greatest common divisor of two whole numbers from 1 to 2^53 (Euclid).
local function gcd(a, b)
  while b > 0 do
    a, b = b, a % b
  end
  return a
end
-- How much of a bucket is used at now_us, in 1/w token, and for how long its refill rests
-- because the stored time lies ahead of now_us. A bucket gains n of these a microsecond.
-- state is used:w:time_us as text, or false; what does not parse reads as never used.
-- w_digits: w as text, if the caller has it. cold: what is used of a bucket that was never used, if
-- not 0; it reads so again when it has been full for as long as it takes to fill.
local function bucket_used(state, now_us, n, w, capacity, w_digits, cold)
  if not state then return cold or 0, 0 end
  local used_text, w_text, time_text = string.match(state, "^(%d+):(%d+):(%d+)$")
  if not used_text then return cold or 0, 0 end
  -- * 1 reads digits in half the time of tonumber, which reads them twice.
  local used, elapsed_us = used_text * 1, now_us - time_text
  -- A bucket may hold 2^53; 2^53+1 would be read as the same double.
  if used == 0 or used >= 2^53 and used_text ~= "9007199254740992" then return cold or 0, 0 end
  -- Further ahead than a full refill: the clock was set back, and nobody is locked out for it.
  if elapsed_us < 0 and -elapsed_us > math.floor(capacity / n) then return cold or 0, 0 end
  if w_text ~= w_digits then
    local stored_w = w_text * 1
    if stored_w == 0 or stored_w >= 2^53 then return cold or 0, 0 end
    -- The limit was edited: whole tokens stay used, rounded up, as far as they fit.
    if stored_w ~= w then used = math.ceil(used / stored_w) * w end
  end
  if used > capacity then used = capacity end
  if elapsed_us < 0 then return used, -elapsed_us end
  -- Compared before it is multiplied, so that no product passes 2^53.
  if elapsed_us < used / n then return used - elapsed_us * n, 0 end
  if cold and elapsed_us >= math.ceil(used / n) + math.ceil(capacity / n) then return cold, 0 end
  return 0, 0
end
-- allowed, remaining, wait_us, reset_us of a bucket with `used` used, before it is charged. A
-- leaky bucket holds what it admits for this reset_us: until the queue in front has drained.
-- charging: if it allows, the answer after the charge.
local function bucket_answer(used, ahead_us, n, w, capacity, cost, charging)
  -- x - x % 1 is floor(x) and x + -x % 1 is ceil(x), without a call.
  local price, allowed, wait_us, reset_us = cost * w, 1, 0, 0
  if price > capacity - used then
    allowed, wait_us = 0, -1
    if price <= capacity then
      wait_us = (price - (capacity - used)) / n
      wait_us = ahead_us + (wait_us + -wait_us % 1)
    end
  elseif charging then
    used = used + price
  end
  if used > 0 then
    reset_us = used / n
    reset_us = ahead_us + (reset_us + -reset_us % 1)
  end
  local remaining = (capacity - used) / w
  return allowed, remaining - remaining % 1, wait_us, reset_us
end

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
