-- What is wrong with KEYS and ARGV of take, as text, or nil. The script itself only finds that
-- something is; here every argument is read again, in order, for a message that says which.
local function call_error(keys, argv, argument_error)
  local most = 9007199254740991
  local rows = 0 -- checks so far that wrote their own five numbers

  -- What is wrong with the check whose arguments begin at argv[at], and how many they are.
  local function check_error(at)
    local algorithm = tonumber(argv[at] or "")
    local problem = argument_error(argv, at, "algorithm", 1,
      algorithm and algorithm < 0 and 5 or 5 + rows, "a shadow")
    if problem or algorithm > 5 then return problem, 1 end
    rows, algorithm = rows + 1, math.abs(algorithm)
    if algorithm <= 2 then
      problem = argument_error(argv, at + 1, "n", 1, most) or argument_error(argv, at + 2, "w", 1, most)
      if problem then return problem, 5 end
      local w, c = tonumber(argv[at + 2]), {[at + 3] = argv[at + 3]}
      local capacity, cold = string.match(algorithm == 1 and argv[at + 3] or "", "^(%d+)/(%d+)$")
      c[at + 3] = capacity or c[at + 3]
      problem = argument_error(c, at + 3, "capacity", w, 2^53)
      if cold and not problem then
        c[at + 3] = cold
        problem = argument_error(c, at + 3, "cold", 1, capacity - w)
      end
      return problem or argument_error(argv, at + 4, "cost", 1, most), 5
    end
    problem = argument_error(argv, at + 2, "window_us", 1000, 31622400000000)
    if problem then return problem, 5 end
    local window_us = tonumber(argv[at + 2])
    local most_limit, most_offset, most_cost = most, window_us - 1, most
    if algorithm == 4 then
      most_limit, most_offset, most_cost = 10000, 0, 100
    elseif algorithm == 5 then
      most_limit = math.floor(2^53 / window_us)
    end
    return argument_error(argv, at + 1, "limit", 1, most_limit)
      or argument_error(argv, at + 3, "offset_us", 0, most_offset)
      or argument_error(argv, at + 4, "cost", 1, most_cost), 5
  end

  local problem = argument_error(argv, 1, "now_us", 0, most)
  local at, checked, request, named = 2, 0, 0, {}
  while not problem and at <= #argv do
    problem = argument_error(argv, at, "checks", 1, math.max(1, #keys - checked), "a peek")
    local checks = math.abs(tonumber(argv[at]) or 0)
    local to = checked + checks
    at, request = at + 1, request + 1
    while not problem and checked < to do
      local length
      problem, length = check_error(at)
      at, checked = at + length, checked + 1
      local key = keys[checked] or ""
      if not problem and named[key] == request then
        problem = string.format("ERR KEYS[%d]: its request names this key twice", checked)
      end
      named[key] = request
    end
  end
  if problem then return problem end
  if checked ~= #keys then return string.format("ERR %d keys, want %d", #keys, checked) end
end
