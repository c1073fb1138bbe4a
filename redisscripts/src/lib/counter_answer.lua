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
