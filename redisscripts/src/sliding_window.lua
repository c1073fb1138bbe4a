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

-- include argument_error
-- include log_answer
-- include log_members

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
