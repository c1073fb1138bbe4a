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
