-- How much of a bucket is used at now_us, in 1/w token, and for how long its refill rests
-- because the stored time lies ahead of now_us. A bucket gains n of these a microsecond.
-- state is used:w:time_us as text, or false; what does not parse reads as never used.
-- w_digits: w as text, if the caller has it. cold: what is used of a bucket that was never used, if
-- not 0; it reads so again when it has been full for as long as it takes to fill.
local function bucket_used(state, now_us, n, w, capacity, w_digits, cold)
  if not state then return cold or 0, 0 end
  local used_text, w_text, time_text = string.match(state, "^(%d+):(%d+):(%d+)$")
  if not used_text then return cold or 0, 0 end
  -- * 1 reads digits in half the time of tonumber, which reads them twice.
  local used, elapsed_us = used_text * 1, now_us - time_text
  -- A bucket may hold 2^53; 2^53+1 would be read as the same double.
  if used == 0 or used >= 2^53 and used_text ~= "9007199254740992" then return cold or 0, 0 end
  -- Further ahead than a full refill: the clock was set back, and nobody is locked out for it.
  if elapsed_us < 0 and -elapsed_us > math.floor(capacity / n) then return cold or 0, 0 end
  if w_text ~= w_digits then
    local stored_w = w_text * 1
    if stored_w == 0 or stored_w >= 2^53 then return cold or 0, 0 end
    -- The limit was edited: whole tokens stay used, rounded up, as far as they fit.
    if stored_w ~= w then used = math.ceil(used / stored_w) * w end
  end
  if used > capacity then used = capacity end
  if elapsed_us < 0 then return used, -elapsed_us end
  -- Compared before it is multiplied, so that no product passes 2^53.
  if elapsed_us < used / n then return used - elapsed_us * n, 0 end
  if cold and elapsed_us >= math.ceil(used / n) + math.ceil(capacity / n) then return cold, 0 end
  return 0, 0
end
