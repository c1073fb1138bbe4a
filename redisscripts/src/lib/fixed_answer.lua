-- allowed, remaining, wait_us, reset_us of a fixed window with `count` counted, before it is
-- charged. charging: if it allows, the answer after the charge.
local function fixed_answer(count, left_us, limit, cost, charging)
  local allowed, wait_us, reset_us = 1, 0, 0
  if cost > limit - count then
    allowed, wait_us = 0, left_us
    if cost > limit then wait_us = -1 end
  elseif charging then
    count = count + cost
  end
  if count > 0 then reset_us = left_us end
  local remaining = limit - count
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  return allowed, remaining, wait_us, reset_us
end
