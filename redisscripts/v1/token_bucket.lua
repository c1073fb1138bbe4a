-- Composed by go generate from src/token_bucket.lua and src/lib; edit those.
-- token_bucket: one bucket that holds up to `burst` tokens, starts full and gains `limit`
-- tokens per window continuously; a request takes `cost` tokens or is refused.
--
-- KEYS  1  the bucket
-- ARGV  1  limit       1 to 2^53-1
--       2  window_us   1000 to 31622400000000 (366 days)
--       3  burst       at least 1, at most 2^53 divided by window_us/gcd(limit, window_us)
--       4  cost        1 to 2^53-1
--       5  now_us      microseconds since 1970; absent or 0: the server's TIME
--       6  peek        1: charge nothing; absent or 0: charge if allowed
-- Reply    allowed (1 or 0), remaining, wait_us (-1: no wait helps), reset_us
-- State    used:w:time_us, used in 1/w token

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
local function bucket_used(state, now_us, n, w, capacity)
  local used_text, w_text, time_text = string.match(state or "", "^(%d+):(%d+):(%d+)$")
  if not used_text then return 0, 0 end
  local used, stored_w, time_us = tonumber(used_text), tonumber(w_text), tonumber(time_text)
  if used == 0 or used > 2^53 or stored_w == 0 or stored_w >= 2^53 then return 0, 0 end
  -- A bucket may hold 2^53; 2^53+1 would be read as the same double.
  if used == 2^53 and used_text ~= "9007199254740992" then return 0, 0 end
  local elapsed_us = now_us - time_us
  -- Further ahead than a full refill: the clock was set back, and nobody is locked out for it.
  if -elapsed_us > math.floor(capacity / n) then return 0, 0 end
  -- The limit was edited: whole tokens stay used, rounded up, as far as they fit.
  if stored_w ~= w then used = math.ceil(used / stored_w) * w end
  if used > capacity then used = capacity end
  if elapsed_us < 0 then return used, -elapsed_us end
  -- Compared before it is multiplied, so that no product passes 2^53.
  if elapsed_us >= math.ceil(used / n) then return 0, 0 end
  return used - elapsed_us * n, 0
end
-- allowed, remaining, wait_us, reset_us of a bucket with `used` used, before it is charged.
-- With cost 0 it tells what a charge has left. A leaky bucket holds what it admits for the
-- reset_us before the charge: until the queue in front has drained.
local function bucket_answer(used, ahead_us, n, w, capacity, cost)
  local free, price = capacity - used, cost * w
  local remaining, reset_us = math.floor(free / w), 0
  if used > 0 then reset_us = ahead_us + math.ceil(used / n) end
  if price <= free then return 1, remaining, 0, reset_us end
  if price > capacity then return 0, remaining, -1, reset_us end
  return 0, remaining, ahead_us + math.ceil((price - free) / n), reset_us
end

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
problem = argument_error(ARGV, 3, "burst", 1, math.floor(2^53 / w))
if problem then return redis.error_reply(problem) end
local capacity = tonumber(ARGV[3]) * w

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
  reply = {bucket_answer(used, ahead_us, n, w, capacity, 0)}
  redis.call("SET", KEYS[1], string.format("%d:%d:%d", used, w, now_us + ahead_us),
    "PX", string.format("%d", math.ceil(reply[4] / 1000) + spare_ms))
end
return reply
