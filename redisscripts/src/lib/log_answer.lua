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
