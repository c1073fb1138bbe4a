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
