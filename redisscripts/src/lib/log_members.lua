-- The score and member of each unit of cost, as ZADD takes them: time_us, time_us:sequence.
-- time_text: now_us in digits. first: how many of this microsecond there are; they leave
-- together, so it is a free number.
local function log_members(time_text, first, cost)
  local members = {time_text, string.format("%s:%d", time_text, first)}
  for i = 1, cost - 1 do
    members[2 * i + 1] = time_text
    members[2 * i + 2] = string.format("%s:%d", time_text, first + i)
  end
  return members
end
