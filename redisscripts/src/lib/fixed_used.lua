-- The number of the current window, the time to its end, and the count in it.
-- state is number:window_us:offset_us:count as text, or false; what does not parse, or was
-- counted in other windows, reads as never used.
local function fixed_used(state, now_us, window_us, offset_us)
  local since_us = now_us - offset_us
  local number = math.floor(since_us / window_us)
  local left_us = window_us - (since_us - number * window_us)
  local stored, window, offset, count = string.match(state or "", "^(%-?%d+):(%d+):(%d+):(%d+)$")
  if not stored then return number, left_us, 0 end
  stored, count = tonumber(stored), tonumber(count)
  if tonumber(window) ~= window_us or tonumber(offset) ~= offset_us or count >= 2^53 then
    return number, left_us, 0
  end
  if stored == number then return number, left_us, count end
  -- The clock stepped back: a window ahead by one is still the current one.
  if stored == number + 1 and count > 0 then return stored, left_us + window_us, count end
  return number, left_us, 0
end
