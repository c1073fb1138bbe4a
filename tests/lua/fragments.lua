-- Loads each fragment of redisscripts/src/lib alone, with nothing but math, string and tonumber
-- to use, and writes its answers to the same pseudo-random questions.
--     lua5.1 fragments.lua DIR
local dir = ...

local seed = 1
local function random(low, high)
  seed = seed * 16807 % 2147483647
  return low + math.floor((high - low + 1) * (seed / 2147483647))
end

local function fragment(name)
  local file = assert(io.open(dir .. "/" .. name .. ".lua", "rb"))
  local chunk = assert(loadstring(file:read("*a") .. "\nreturn " .. name, name))
  file:close()
  local only = {math = math, string = string, tonumber = tonumber}
  setfenv(chunk, setmetatable({}, {
    __index = function(_, global) return only[global] or error(name .. " reads " .. global) end,
    __newindex = function(_, global) error(name .. " sets " .. global) end,
  }))
  return chunk()
end

local function show(name, ...)
  local shown = {name}
  for i = 1, select("#", ...) do
    local value = select(i, ...)
    shown[i + 1] = type(value) == "number" and string.format("%d", value) or tostring(value)
  end
  io.write(table.concat(shown, " "), "\n")
end

local argument_error, gcd = fragment("argument_error"), fragment("gcd")
local call_error = fragment("call_error")
local bucket_used, bucket_answer = fragment("bucket_used"), fragment("bucket_answer")
local fixed_used, fixed_answer = fragment("fixed_used"), fragment("fixed_answer")
local counter_used, counter_answer = fragment("counter_used"), fragment("counter_answer")
local log_answer, log_members = fragment("log_answer"), fragment("log_members")

for _, text in ipairs{"0", "7", "-7", "9007199254740991", "9007199254740992", "9007199254740993", "1e3",
  "0x7", " 7", "7 ", "", "nan", "inf", "7.0", "\r\n", string.rep("7", 400)} do
  show("argument_error", argument_error({text}, 1, "cost", 1, 2^53))
  show("argument_error", argument_error({text}, 1, "checks", 1, 7, "a peek"))
end
show("argument_error", argument_error({}, 1, "cost", 1, 2^53))
local right = {"0", "1", "1", "1", "1000", "5000", "1", "2", "6", "3", "5", "1000", "0", "1"}
show("call_error", call_error({"a", "b", "c"}, right, argument_error))
for i = 1, #right do
  local wrong = {unpack(right)}
  wrong[i] = "-0"
  show("call_error", call_error({"a", "b", "c"}, wrong, argument_error))
end

for _ = 1, 2000 do
  local now_us = random(1767225600000000, 1767225600000000 + 10^random(1, 14))
  local n, w = random(1, 10^random(0, 12)), random(1, 10^random(0, 13))
  local divisor = gcd(n, w)
  show("gcd", n, w, divisor)
  n, w = n / divisor, w / divisor
  local capacity, cost = w * random(1, math.floor(2^53 / w)), random(1, 10^random(0, 15))
  local state = string.format("%d:%d:%d", random(0, capacity), random(0, 1) == 0 and w or random(1, 10^13),
    now_us + random(-10^random(0, 13), 10^random(0, 10)))
  local used, ahead_us = bucket_used(state, now_us, n, w, capacity)
  show("bucket_used", state, used, ahead_us)
  show("bucket_answer", bucket_answer(used, ahead_us, n, w, capacity, cost))

  local window_us = random(1000, 10^random(3, 13))
  local offset_us, limit = random(0, window_us - 1), random(1, math.floor(2^53 / window_us))
  local number = math.floor((now_us - offset_us) / window_us) + random(-2, 2)
  cost = random(1, limit)
  state = string.format("%d:%d:%d:%d", number, window_us, offset_us, random(0, limit))
  local _, left_us, count = fixed_used(state, now_us, window_us, offset_us)
  show("fixed_used", state, left_us, count)
  show("fixed_answer", fixed_answer(count, left_us, limit, cost))
  state = string.format("%d:%d:%d:%d:%d", number, window_us, offset_us, random(0, limit), random(0, limit))
  local _, left, previous, current = counter_used(state, now_us, window_us, offset_us)
  show("counter_used", state, left, previous, current)
  show("counter_answer", counter_answer(previous, current, left, limit, window_us, cost))

  local newest_us = now_us + random(1 - window_us, window_us)
  limit, count = random(1, 100), random(0, 100)
  cost = random(1, 100)
  show("log_answer", log_answer(count, newest_us, newest_us - random(0, 9), now_us, limit, window_us, cost))
  show("log_members", table.concat(log_members(string.format("%d", now_us), random(0, 3), random(1, 3)), " "))
end
