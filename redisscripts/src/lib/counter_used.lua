-- The number of the current window, the time to its end, and the counts of the window before
-- and of this one. Longer than a window to its end: the stored window lies ahead by one.
-- state is number:window_us:offset_us:previous:current as text, or false; what does not
-- parse, or was counted in other windows, reads as never used.
local function counter_used(state, now_us, window_us, offset_us)
  local since_us = now_us - offset_us
  local number = math.floor(since_us / window_us)
  local left_us = window_us - (since_us - number * window_us)
  local stored, window, offset, previous, current =
    string.match(state or "", "^(%-?%d+):(%d+):(%d+):(%d+):(%d+)$")
  if not stored then return number, left_us, 0, 0 end
  stored, previous, current = tonumber(stored), tonumber(previous), tonumber(current)
  if tonumber(window) ~= window_us or tonumber(offset) ~= offset_us
    or previous >= 2^53 or current >= 2^53 then
    return number, left_us, 0, 0
  end
  if stored == number then return number, left_us, previous, current end
  if stored == number - 1 then return number, left_us, current, 0 end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and previous + current > 0 then
    return stored, left_us + window_us, previous, current
  end
  return number, left_us, 0, 0
end
