-- allowed, remaining, wait_us, reset_us of a sliding counter, before it is charged. charging:
-- if it allows, the answer after the charge. Of the window before, the share counts that a
-- window ending now still covers. Everything is counted in 1/window_us request, and
-- limit*window_us <= 2^53 keeps it exact; a product that passes 2^53 only ever refuses.
local function counter_answer(previous, current, left_us, limit, window_us, cost, charging)
  local share_us, wait_us, reset_us = left_us, 0, 0
  if share_us > window_us then share_us = window_us end
  -- x - x % 1 is floor(x), without a call.
  local remaining = ((limit - current) * window_us - previous * share_us) / window_us
  remaining = remaining - remaining % 1
  if remaining < 0 then remaining = 0 end
  local allowed = cost <= remaining and 1 or 0
  if allowed == 0 then
    local room = limit - current - cost
    if cost > limit then
      wait_us = -1
    elseif room >= 0 then -- in this window, when the share has shrunk to what leaves room
      wait_us = left_us - math.floor(room * window_us / previous)
    else -- in the next one, of which this one is then the window before
      wait_us = left_us + window_us - math.floor((limit - cost) * window_us / current)
    end
  elseif charging then
    current, remaining = current + cost, remaining - cost
  end
  if current > 0 then
    reset_us = left_us + window_us
  elseif previous > 0 then
    reset_us = left_us
  end
  return allowed, remaining, wait_us, reset_us
end
