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
