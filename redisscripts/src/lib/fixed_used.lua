-- The number of the current window, the time to its end, and the count in it.
-- state is number:window_us:offset_us:count as text, or false; what does not parse, or was
-- counted in other windows, reads as never used.
-- pattern: what such a state of these windows matches, if the caller has made it before.
local function fixed_used(state, now_us, window_us, offset_us, pattern)
  local since_us = (now_us - offset_us) % window_us
  local number, left_us = (now_us - offset_us - since_us) / window_us, window_us - since_us
  if not state then return number, left_us, 0 end
  local stored, count = string.match(state,
    pattern or string.format("^(%%-?%%d+):%d:%d:(%%d+)$", window_us, offset_us))
  if not stored then return number, left_us, 0 end
  -- * 1 reads digits in half the time of tonumber, which reads them twice.
  stored, count = stored * 1, count * 1
  if count >= 2^53 then return number, left_us, 0 end
  if stored == number then return number, left_us, count end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and count > 0 then return stored, left_us + window_us, count end
  return number, left_us, 0
end
