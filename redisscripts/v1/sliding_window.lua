-- Composed by go generate from src/sliding_window.lua and src/lib; edit those.
-- sliding_window: at most `limit` in any interval of a window's length, from the log of what
-- was admitted.
--
-- KEYS  1  the log, a sorted set
-- ARGV  1  limit       1 to 10000
--       2  window_us   1000 to 31622400000000 (366 days)
--       3  offset_us   0
--       4  cost        1 to 100
--       5  now_us      microseconds since 1970; absent or 0: the server's TIME
--       6  peek        1: charge nothing; absent or 0: charge if allowed
-- Reply    allowed (1 or 0), remaining, wait_us (-1: no wait helps), reset_us
-- State    a member time_us:sequence of score time_us for each unit of cost

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

local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
  or argument_error(ARGV, 1, "limit", 1, 10000)
  or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
  or argument_error(ARGV, 3, "offset_us", 0, 0)
  or argument_error(ARGV, 4, "cost", 1, 100)
  or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
  or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
  or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
if problem then return redis.error_reply(problem) end
local key, limit, window_us, cost = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[4])

local now_us, spare_ms = tonumber(ARGV[5] or 0), 60000
if now_us == 0 then
  local time = redis.call("TIME")
  now_us, spare_ms = time[1] * 1000000 + time[2], 0
end

-- Counted are the times t with now-window < t <= now+window.
local gone, last = string.format("%d", now_us - window_us), string.format("%d", now_us + window_us)
local count = redis.pcall("ZCOUNT", key, "(" .. gone, last)
if type(count) == "table" then return count end -- another type's key
local newest_us, leaves_us = 0, 0
if count > 0 then
  newest_us = tonumber(
    redis.call("ZREVRANGEBYSCORE", key, last, "(" .. gone, "WITHSCORES", "LIMIT", 0, 1)[2])
end
if count + cost > limit and cost <= limit then
  leaves_us = tonumber(redis.call("ZRANGEBYSCORE", key, "(" .. gone, last,
    "WITHSCORES", "LIMIT", count + cost - limit - 1, 1)[2])
end
local reply = {log_answer(count, newest_us, leaves_us, now_us, limit, window_us, cost)}

if reply[1] == 1 and tonumber(ARGV[6] or 0) == 0 then
  local first = 0
  if newest_us >= now_us then
    first = redis.call("ZCOUNT", key, string.format("%d", now_us), string.format("%d", now_us))
  end
  count, newest_us = count + cost, math.max(newest_us, now_us)
  reply = {log_answer(count, newest_us, 0, now_us, limit, window_us, 0)}
  -- ZADD comes first: a Redis that is out of memory refuses it, and then nothing is done.
  redis.call("ZADD", key, unpack(log_members(now_us, first, cost)))
  if redis.call("ZCARD", key) > count then
    redis.call("ZREMRANGEBYSCORE", key, "-inf", gone)
    redis.call("ZREMRANGEBYSCORE", key, "(" .. last, "+inf")
  end
  redis.call("PEXPIRE", key, string.format("%d", math.ceil(reply[4] / 1000) + spare_ms))
end
return reply
