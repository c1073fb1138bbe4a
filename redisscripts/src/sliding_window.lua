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

-- include log_answer
-- include log_members

-- The usual call is looked at once, as a whole; any other one argument after the other, for an
-- error that says which. * 1 reads digits in half the time of tonumber.
local limit, window_us, offset_us, cost = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local right = cost and not ARGV[5] and #KEYS == 1
  and string.find(limit .. ":" .. window_us .. ":" .. offset_us .. ":" .. cost, "^%d+:%d+:%d+:%d+$")
if right then
  limit, window_us, offset_us, cost = limit * 1, window_us * 1, offset_us * 1, cost * 1
  right = limit >= 1 and window_us >= 1000 and window_us <= 31622400000000 and cost >= 1
    and limit <= 10000 and offset_us == 0 and cost <= 100
end
local now_us, spare_ms, charging = 0, 0, true
if not right then
-- include argument_error
  local problem = #KEYS ~= 1 and string.format("ERR %d keys, want 1", #KEYS)
    or argument_error(ARGV, 1, "limit", 1, 10000)
    or argument_error(ARGV, 2, "window_us", 1000, 31622400000000)
    or argument_error(ARGV, 3, "offset_us", 0, 0)
    or argument_error(ARGV, 4, "cost", 1, 100)
    or ARGV[5] and argument_error(ARGV, 5, "now_us", 0, 9007199254740991)
    or ARGV[6] and argument_error(ARGV, 6, "peek", 0, 1)
    or ARGV[7] and string.format("ERR %d arguments, want 4 to 6", #ARGV)
  if problem then return redis.error_reply(problem) end
  limit, window_us, cost = ARGV[1] * 1, ARGV[2] * 1, ARGV[4] * 1
  now_us, charging = (ARGV[5] or 0) * 1, (ARGV[6] or 0) * 1 == 0
end

if now_us == 0 then
  local time = redis.call("TIME")
  now_us = time[1] * 1000000 + time[2]
else
  spare_ms = 60000
end

-- Counted are the times t with now-window < t <= now+window. The others are counted, since they
-- are few, and taken off: those that are older, those that are later, of those from now on.
local key, now_text = KEYS[1], string.format("%d", now_us)
local count, older, since, later = redis.pcall("ZCARD", key), 0, 0, 0
if type(count) == "table" then return count end -- another type's key
if count > 0 then
  older = redis.call("ZCOUNT", key, "-inf", string.format("%d", now_us - window_us))
  since = redis.call("ZCOUNT", key, now_text, "+inf")
  if since > 0 then
    later = redis.call("ZCOUNT", key, string.format("(%d", now_us + window_us), "+inf")
  end
  count = count - older - later
end

-- A charge makes now the newest, but for a clock that has stepped back.
local newest_us, leaves_us = 0, 0
if count > 0 and not (charging and count + cost <= limit and since == later) then
  local rank = string.format("%d", older + count - 1)
  newest_us = redis.call("ZRANGE", key, rank, rank, "WITHSCORES")[2] * 1
  if count + cost > limit and cost <= limit then
    rank = string.format("%d", older + count + cost - limit - 1)
    leaves_us = redis.call("ZRANGE", key, rank, rank, "WITHSCORES")[2] * 1
  end
end
local allowed, remaining, wait_us, reset_us =
  log_answer(count, newest_us, leaves_us, now_us, limit, window_us, cost, charging)

if charging and allowed == 1 then
  local first = since > 0 and redis.call("ZCOUNT", key, now_text, now_text) or 0
  -- ZADD comes first: a Redis that is out of memory refuses it, and then nothing is done.
  redis.call("ZADD", key, unpack(log_members(now_text, first, cost)))
  if older > 0 then
    redis.call("ZREMRANGEBYSCORE", key, "-inf", string.format("%d", now_us - window_us))
  end
  if later > 0 then
    redis.call("ZREMRANGEBYSCORE", key, string.format("(%d", now_us + window_us), "+inf")
  end
  redis.call("PEXPIRE", key, string.format("%d", (reset_us + 999) / 1000 + spare_ms)) -- %d drops a fraction
end
return {allowed, remaining, wait_us, reset_us}
