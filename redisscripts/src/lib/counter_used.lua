-- The number of the current window, the time to its end, and the counts of the window before
-- and of this one. Longer than a window to its end: the stored window lies ahead by one.
-- state is number:window_us:offset_us:previous:current as text, or false; what does not
-- parse, or was counted in other windows, reads as never used.
-- pattern: what such a state of these windows matches, if the caller has made it before.
local function counter_used(state, now_us, window_us, offset_us, pattern)
  local since_us = (now_us - offset_us) % window_us
  local number, left_us = (now_us - offset_us - since_us) / window_us, window_us - since_us
  if not state then return number, left_us, 0, 0 end
  local stored, previous, current = string.match(state,
    pattern or string.format("^(%%-?%%d+):%d:%d:(%%d+):(%%d+)$", window_us, offset_us))
  if not stored then return number, left_us, 0, 0 end
  -- * 1 reads digits in half the time of tonumber, which reads them twice.
  stored, previous, current = stored * 1, previous * 1, current * 1
  if previous >= 2^53 or current >= 2^53 then return number, left_us, 0, 0 end
  if stored == number then return number, left_us, previous, current end
  if stored == number - 1 then return number, left_us, current, 0 end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and previous + current > 0 then
    return stored, left_us + window_us, previous, current
  end
  return number, left_us, 0, 0
end
