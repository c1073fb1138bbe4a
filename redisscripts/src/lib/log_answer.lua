-- allowed, remaining, wait_us, reset_us of a sliding window with `count` requests counted,
-- before it is charged. charging: if it allows, the answer after the charge.
-- newest_us: the latest of them. leaves_us: the (count+cost-limit)-th oldest of them, which
-- has to leave before the cost fits; read only if there is one.
local function log_answer(count, newest_us, leaves_us, now_us, limit, window_us, cost, charging)
  local allowed, wait_us, reset_us = 1, 0, 0
  if cost > limit - count then
    allowed, wait_us = 0, -1
    if cost <= limit then wait_us = leaves_us - now_us + window_us end
  elseif charging then
    if count == 0 or newest_us < now_us then newest_us = now_us end
    count = count + cost
  end
  if count > 0 then reset_us = newest_us - now_us + window_us end
  local remaining = limit - count
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  return allowed, remaining, wait_us, reset_us
end
