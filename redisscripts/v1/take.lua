-- Composed by go generate from src/take.lua and src/lib; edit those.
-- take: many requests, each with many checks, decided one after the other at one instant.
--
-- KEYS     a key for each check, in the order of the checks of all requests; no key twice in
--          one request
-- ARGV  1  now_us      microseconds since 1970; 0: the server's TIME
--       then for each request
--          checks      how many; negative: a peek, which charges nothing
--       and for each of its checks
--          algorithm   1 token_bucket, 2 leaky_bucket, 3 fixed_window, 4 sliding_window,
--                      5 sliding_counter; negative: a shadow, which refuses nobody
--          a, b, c     buckets: n, w, capacity: they hold capacity in 1/w token, gain n of
--                      these a microsecond (n/w is limit/window_us in lowest terms), and
--                      capacity is burst*w, or (burst+1)*w for leaky_bucket
--                      windows: limit, window_us, offset_us (0 for sliding_window)
--          cost
--       Bounds as for the scripts of one algorithm; capacity at most 2^53.
-- Reply    flat: for each request its status (1 admitted, 0 refused, -1 a key holds another
--          Redis type, and nothing of this request was charged), then for each of its checks
--          allowed, remaining, wait_us, reset_us (zeros when the status is -1)
-- State    as of the scripts of one algorithm

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
-- allowed, remaining, wait_us, reset_us of a sliding window with `count` requests counted,
-- before it is charged. With cost 0 it tells what a charge has left.
-- newest_us: the latest of them. leaves_us: the (count+cost-limit)-th oldest of them, which
-- has to leave before the cost fits; read only if there is one.
local function log_answer(count, newest_us, leaves_us, now_us, limit, window_us, cost)
  local remaining, reset_us = limit - count, 0
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  if count > 0 then reset_us = newest_us - now_us + window_us end
  if cost <= remaining then return 1, remaining, 0, reset_us end
  if cost > limit then return 0, remaining, -1, reset_us end
  return 0, remaining, leaves_us - now_us + window_us, reset_us
end
-- The score and member of each unit of cost, as ZADD takes them: time_us, time_us:sequence.
-- first: how many of this microsecond there are; they leave together, so it is a free number.
local function log_members(now_us, first, cost)
  local members = {}
  local score = string.format("%d", now_us)
  for i = 0, cost - 1 do
    members[2 * i + 1] = score
    members[2 * i + 2] = string.format("%s:%d", score, first + i)
  end
  return members
end

local LEAKY_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_COUNTER = 2, 3, 4, 5
local MAX = 9007199254740991

-- What is wrong with the check whose five arguments begin at ARGV[at], or nil.
local function check_error(at)
  local problem = argument_error(ARGV, at, "algorithm", 1, 5, "a shadow")
  if problem then return problem end
  local algorithm = math.abs(tonumber(ARGV[at]))
  if algorithm <= LEAKY_BUCKET then
    return argument_error(ARGV, at + 1, "n", 1, MAX)
      or argument_error(ARGV, at + 2, "w", 1, MAX)
      or argument_error(ARGV, at + 3, "capacity", tonumber(ARGV[at + 2]), 2^53)
      or argument_error(ARGV, at + 4, "cost", 1, MAX)
  end
  problem = argument_error(ARGV, at + 2, "window_us", 1000, 31622400000000)
  if problem then return problem end
  local window_us = tonumber(ARGV[at + 2])
  local most_limit, most_offset, most_cost = MAX, window_us - 1, MAX
  if algorithm == SLIDING_WINDOW then
    most_limit, most_offset, most_cost = 10000, 0, 100
  elseif algorithm == SLIDING_COUNTER then
    most_limit = math.floor(2^53 / window_us)
  end
  return argument_error(ARGV, at + 1, "limit", 1, most_limit)
    or argument_error(ARGV, at + 3, "offset_us", 0, most_offset)
    or argument_error(ARGV, at + 4, "cost", 1, most_cost)
end

-- What is wrong with KEYS and ARGV, or nil. All of it is looked at before anything is written.
local function call_error()
  local problem = argument_error(ARGV, 1, "now_us", 0, MAX)
  if problem then return problem end
  local at, keys, request, named = 2, 0, 0, {}
  while at <= #ARGV do
    problem = argument_error(ARGV, at, "checks", 1, math.max(1, #KEYS - keys), "a peek")
    if problem then return problem end
    local checks = math.abs(tonumber(ARGV[at]))
    at, request = at + 1, request + 1
    for _ = 1, checks do
      keys = keys + 1
      problem = check_error(at)
      if problem then return problem end
      local key = KEYS[keys] or ""
      if named[key] == request then
        return string.format("ERR KEYS[%d]: its request names this key twice", keys)
      end
      named[key] = request
      at = at + 5
    end
  end
  if keys ~= #KEYS then return string.format("ERR %d keys, want %d", #KEYS, keys) end
end

local problem = call_error()
if problem then return redis.error_reply(problem) end

local now_us, spare_ms = tonumber(ARGV[1]), 60000
if now_us == 0 then
  local time = redis.call("TIME")
  now_us, spare_ms = time[1] * 1000000 + time[2], 0
end

-- The check whose arguments begin at ARGV[at].
local function new_check(key, at)
  local algorithm = tonumber(ARGV[at])
  return {
    key = key, algorithm = math.abs(algorithm), shadow = algorithm < 0,
    a = tonumber(ARGV[at + 1]), b = tonumber(ARGV[at + 2]), c = tonumber(ARGV[at + 3]),
    cost = tonumber(ARGV[at + 4]),
  }
end

-- Reads the log of a sliding window, and returns Redis's error if it has one.
local function look_log(check)
  local key, limit, window_us, cost = check.key, check.a, check.b, check.cost
  -- Counted are the times t with now-window < t <= now+window.
  local gone, last = string.format("%d", now_us - window_us), string.format("%d", now_us + window_us)
  local count = redis.pcall("ZCOUNT", key, "(" .. gone, last)
  if type(count) == "table" then return count end
  check.count, check.newest_us, check.leaves_us, check.gone, check.last = count, 0, 0, gone, last
  if count > 0 then
    check.newest_us = tonumber(
      redis.call("ZREVRANGEBYSCORE", key, last, "(" .. gone, "WITHSCORES", "LIMIT", 0, 1)[2])
  end
  if count + cost > limit and cost <= limit then
    check.leaves_us = tonumber(redis.call("ZRANGEBYSCORE", key, "(" .. gone, last,
      "WITHSCORES", "LIMIT", count + cost - limit - 1, 1)[2])
  end
end

-- Reads the key of a check: what is used of it now. Returns Redis's error if it has one.
local function look(check)
  local algorithm, b, c = check.algorithm, check.b, check.c
  if algorithm == SLIDING_WINDOW then return look_log(check) end
  local state = redis.pcall("GET", check.key)
  if type(state) == "table" then return state end
  if algorithm <= LEAKY_BUCKET then
    check.used, check.ahead_us = bucket_used(state, now_us, check.a, b, c)
  elseif algorithm == FIXED_WINDOW then
    check.number, check.left_us, check.count = fixed_used(state, now_us, b, c)
  else
    check.number, check.left_us, check.previous, check.count = counter_used(state, now_us, b, c)
  end
end

-- allowed, remaining, wait_us, reset_us of a check for this cost, which is not charged.
local function answer(check, cost)
  local algorithm, a, b = check.algorithm, check.a, check.b
  if algorithm <= LEAKY_BUCKET then
    return bucket_answer(check.used, check.ahead_us, a, b, check.c, cost)
  elseif algorithm == FIXED_WINDOW then
    return fixed_answer(check.count, check.left_us, a, cost)
  elseif algorithm == SLIDING_WINDOW then
    return log_answer(check.count, check.newest_us, check.leaves_us, now_us, a, b, cost)
  end
  return counter_answer(check.previous, check.count, check.left_us, a, b, cost)
end

local function ttl_ms(reset_us)
  return string.format("%d", math.ceil(reset_us / 1000) + spare_ms)
end

local function charge_log(check)
  local key, cost, first = check.key, check.cost, 0
  if check.newest_us >= now_us then
    first = redis.call("ZCOUNT", key, string.format("%d", now_us), string.format("%d", now_us))
  end
  check.count, check.newest_us = check.count + cost, math.max(check.newest_us, now_us)
  local _, remaining, _, reset_us = answer(check, 0)
  -- ZADD comes first: a Redis that is out of memory refuses it, and then nothing is done.
  redis.call("ZADD", key, unpack(log_members(now_us, first, cost)))
  if redis.call("ZCARD", key) > check.count then
    redis.call("ZREMRANGEBYSCORE", key, "-inf", check.gone)
    redis.call("ZREMRANGEBYSCORE", key, "(" .. check.last, "+inf")
  end
  redis.call("PEXPIRE", key, ttl_ms(reset_us))
  return remaining, reset_us
end

-- Writes the charge of a check; returns the remaining and reset_us that it leaves.
local function charge(check)
  local algorithm, b, c, cost = check.algorithm, check.b, check.c, check.cost
  if algorithm == SLIDING_WINDOW then return charge_log(check) end
  local state
  if algorithm <= LEAKY_BUCKET then
    check.used = check.used + cost * b
    state = string.format("%d:%d:%d", check.used, b, now_us + check.ahead_us)
  else
    check.count = check.count + cost
    if algorithm == FIXED_WINDOW then
      state = string.format("%d:%d:%d:%d", check.number, b, c, check.count)
    else
      state = string.format("%d:%d:%d:%d:%d", check.number, b, c, check.previous, check.count)
    end
  end
  local _, remaining, _, reset_us = answer(check, 0)
  redis.call("SET", check.key, state, "PX", ttl_ms(reset_us))
  return remaining, reset_us
end

local reply = {}

-- Decides the request of these checks: its status to reply[base], the answers behind it.
-- Returns Redis's error where it is not about the type of a key.
local function decide(checks, peek, base)
  reply[base] = 1
  for i, check in ipairs(checks) do
    local refused = look(check)
    if refused then
      if not string.find(refused.err, "WRONGTYPE", 1, true) then return refused end
      reply[base] = -1
      for at = base + 1, base + 4 * #checks do reply[at] = 0 end
      return nil
    end
    local at = base + 4 * i - 3
    reply[at], reply[at + 1], reply[at + 2], reply[at + 3] = answer(check, check.cost)
    if reply[at] == 0 and not check.shadow then reply[base] = 0 end
  end
  if peek or reply[base] == 0 then return nil end
  for i, check in ipairs(checks) do
    local at = base + 4 * i - 3
    if reply[at] == 1 then
      -- A leaky bucket holds the request until what was in its queue has drained.
      if check.algorithm == LEAKY_BUCKET then reply[at + 2] = reply[at + 3] end
      reply[at + 1], reply[at + 3] = charge(check)
    end
  end
end

local at, keys, base = 2, 0, 1
while at <= #ARGV do
  local count, checks = tonumber(ARGV[at]), {}
  for i = 1, math.abs(count) do
    checks[i] = new_check(KEYS[keys + i], at + 5 * i - 4)
  end
  local refused = decide(checks, count < 0, base)
  if refused then return refused end
  at, keys, base = at + 1 + 5 * #checks, keys + #checks, base + 1 + 4 * #checks
end
return reply
