-- The score and member of each unit of cost, as ZADD takes them: time_us, time_us:sequence.
-- first: how many of this microsecond there are; they leave together, so it is a free number.
local function log_members(now_us, first, cost)
  local members = {}
  local score = string.format("%d", now_us)
  for i = 0, cost - 1 do
    members[2 * i + 1] = score
    members[2 * i + 2] = string.format("%s:%d", score, first + i)
  end
  return members
end
