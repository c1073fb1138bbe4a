-- Composed by go generate from src/take.lua and src/lib; edit those.
-- take: many requests, each with many checks, decided one after the other at one instant.
--
-- KEYS     a key for each check, in the order of the checks of all requests; no key twice in
--          one request
-- ARGV  1  now_us      microseconds since 1970; 0: the server's TIME
--       then for each request
--          checks      how many; negative: a peek, which charges nothing
--       and for each of its checks
--          algorithm   1 token_bucket, 2 leaky_bucket, 3 fixed_window, 4 sliding_window,
--                      5 sliding_counter; negative: a shadow, which refuses nobody
--          a, b, c     buckets: n, w, capacity: they hold capacity in 1/w token, gain n of
--                      these a microsecond (n/w is limit/window_us in lowest terms), and
--                      capacity is burst*w, or (burst+1)*w for leaky_bucket
--                      windows: limit, window_us, offset_us (0 for sliding_window)
--          cost
--       or       5+i   alone, for the same five as the i-th check that wrote its own
--       Bounds as for the scripts of one algorithm; capacity at most 2^53.
-- Reply    flat: for each request its status (1 admitted, 0 refused, -1 a key holds another
--          Redis type, and nothing of this request was charged), then for each of its checks
--          allowed, remaining, wait_us, reset_us (zeros when the status is -1)
-- State    as of the scripts of one algorithm

-- Redis spends some 40 instructions on a step of Lua, 1,000 on a closure or a table, 3,000 and
-- more on a call of its own. So all of this is one loop: a limit's numbers and a key are read
-- once, a key is written once, and nothing is made that a call does without. What is charged is
-- written at the end: a call that ends with an error has charged nobody.
local keys, argv, call, pcall = KEYS, ARGV, redis.call, redis.pcall
local find, format, key_count = string.find, string.format, #KEYS
local LEAKY_BUCKET, FIXED_WINDOW, SLIDING_WINDOW, SLIDING_COUNTER = 2, 3, 4, 5
local MAX = 9007199254740991

-- `right` is true as long as every argument is. * 1 reads digits in half the time of tonumber.
local text = argv[1]
local right = text and find(text, "^%d+$")
local now_us, spare_ms = right and text * 1, 60000
if now_us == 0 then
  local time = call("TIME")
  now_us, spare_ms = time[1] * 1000000 + time[2], 0
end
right = right and now_us <= MAX

-- What a text of ARGV stands for, but for the numbers of a row. In a batch they are the same few.
local number = {["1"] = 1}

-- The checks that wrote their own numbers: algorithm, a, b, c, cost, what a charge adds to what is
-- used, whether this is no shadow; then what helps to read the states of its keys and to write
-- them: of a bucket w in digits, of aligned windows a pattern, of a log the time up to which its
-- members count no more; a format; of a bucket cold, and for how long it is kept when it is full.
local rows, row_count, now_text = {}, 0, nil
local row, algorithm, a, b, c, cost, amount, enforced, hint, cold
local used_of_bucket, answer_of_bucket, used_of_fixed, answer_of_fixed
local used_of_counter, answer_of_counter, answer_of_log, members_of_log

-- What is known of each key, by the first check of it: the row of the last check, what is used
-- (in 1/w token, or a count), what Redis has of that, and reset_us.
local row_of, used_of, stored_of, reset_of = {false}, {false}, {false}, {false}
-- Then ahead_us of a bucket, left_us of aligned windows, or how many of a log are older than what
-- counts; the number of a window, or how many are later than what counts; the count of the window
-- before, or how many are not older than now.
local left_of, number_of, before_of = {false}, nil, nil
-- The first check of a key; the last one, by the first, of a key that has come again; and what
-- reset_us was before each check of a request that has several.
local first_of, last_of, reset_before = key_count > 1 and {}, nil, nil
-- The states of all keys by one call. It is silent about a key of another type, or none.
local states = first_of and key_count <= 1000 and call("MGET", unpack(keys))

local reply, n = {1, 0, 0, 0, 0}, 0
local place, check = 2, 0 -- the next argument, and how many checks have been
-- Of the request: how many checks are before it and up to its end; where its part of the reply,
-- its checks and its own rows begin.
local from, to, top, start, own_rows, charging, status = 0, 0, 1, 2, 0, true, 1

repeat
  text = argv[place]
  while right and text do
    local code = number[text]
    if not code then
      code = find(text, "^%-?%d+$") and text * 1
      if not code then right = false break end
      number[text] = code
    end

    if check == to then -- a request begins: code is how many checks it has
      charging = true
      if code < 0 then code, charging = -code, false end
      from = check
      to = check + code
      if code < 1 or to > key_count then right = false break end
      top = n + 1
      n = top
      place = place + 1
      start = place
      own_rows = row_count
      status = 1
      reply[top] = 1
    else
      check = check + 1

      -- The row of the check: five numbers of its own, or those of an earlier one.
      local this = rows[code - 5]
      if this then
        place = place + 1
      else
        row_count = row_count + 1
        this = rows[row_count] -- if the request is gone through again, there is one
        if not this then
          local a_text, b_text, c_text, cost_text =
            argv[place + 1], argv[place + 2], argv[place + 3], argv[place + 4]
          right = cost_text
            and find(text .. ":" .. a_text .. ":" .. b_text .. ":" .. c_text .. ":" .. cost_text,
              "^%-?0*[1-5]:%d+:%d+:%d+:%d+$")
          cold = false
          if cost_text and not right then
            right = find(text .. ":" .. a_text .. ":" .. b_text .. ":" .. c_text .. ":" .. cost_text,
              "^%-?0*1:%d+:%d+:%d+/%d+:%d+$")
            if right then
              c_text, cold = string.match(c_text, "(%d+)/(%d+)")
              cold = cold * 1
            end
          end
          if not right then break end
          algorithm, a, b, c, cost = code, a_text * 1, b_text * 1, c_text * 1, cost_text * 1
          enforced, amount, hint = code > 0, cost, b_text
          local kept_us = 0 -- when it is full
          if code < 0 then algorithm = -code end
          right = a >= 1 and a <= MAX and cost >= 1 and cost <= MAX
          if algorithm <= LEAKY_BUCKET then
            amount = cost * b
            -- 2^53+1 is read as the same double as 2^53.
            right = right and b >= 1 and b <= MAX and c >= b and (c <= MAX or c_text == "9007199254740992")
            if cold then
              right, kept_us = right and cold >= 1 and cold <= c - b, math.ceil(c / a)
            end
            if not used_of_bucket then
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
-- allowed, remaining, wait_us, reset_us of a bucket with `used` used, before it is charged. A
-- leaky bucket holds what it admits for this reset_us: until the queue in front has drained.
-- charging: if it allows, the answer after the charge.
local function bucket_answer(used, ahead_us, n, w, capacity, cost, charging)
  -- x - x % 1 is floor(x) and x + -x % 1 is ceil(x), without a call.
  local price, allowed, wait_us, reset_us = cost * w, 1, 0, 0
  if price > capacity - used then
    allowed, wait_us = 0, -1
    if price <= capacity then
      wait_us = (price - (capacity - used)) / n
      wait_us = ahead_us + (wait_us + -wait_us % 1)
    end
  elseif charging then
    used = used + price
  end
  if used > 0 then
    reset_us = used / n
    reset_us = ahead_us + (reset_us + -reset_us % 1)
  end
  local remaining = (capacity - used) / w
  return allowed, remaining - remaining % 1, wait_us, reset_us
end
              used_of_bucket, answer_of_bucket = bucket_used, bucket_answer
            end
          else
            right = right and b >= 1000 and b <= 31622400000000 and c < b
            number_of, hint = number_of or {false}, nil
            if algorithm == FIXED_WINDOW then
              if first_of then hint = format("^(%%-?%%d+):%d:%d:(%%d+)$", b, c) end
              if not used_of_fixed then
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
-- allowed, remaining, wait_us, reset_us of a fixed window with `count` counted, before it is
-- charged. charging: if it allows, the answer after the charge.
local function fixed_answer(count, left_us, limit, cost, charging)
  local allowed, wait_us, reset_us = 1, 0, 0
  if cost > limit - count then
    allowed, wait_us = 0, left_us
    if cost > limit then wait_us = -1 end
  elseif charging then
    count = count + cost
  end
  if count > 0 then reset_us = left_us end
  local remaining = limit - count
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  return allowed, remaining, wait_us, reset_us
end
                used_of_fixed, answer_of_fixed = fixed_used, fixed_answer
              end
            elseif algorithm == SLIDING_COUNTER then
              right, before_of = right and a <= 2^53 / b, before_of or {false}
              if first_of then hint = format("^(%%-?%%d+):%d:%d:(%%d+):(%%d+)$", b, c) end
              if not used_of_counter then
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
                used_of_counter, answer_of_counter = counter_used, counter_answer
              end
            else
              right, before_of = right and a <= 10000 and c == 0 and cost <= 100, before_of or {false}
              hint, now_text = format("%d", now_us - b), now_text or format("%d", now_us)
              if not answer_of_log then
-- allowed, remaining, wait_us, reset_us of a sliding window with `count` requests counted,
-- before it is charged. charging: if it allows, the answer after the charge.
-- newest_us: the latest of them. leaves_us: the (count+cost-limit)-th oldest of them, which
-- has to leave before the cost fits; read only if there is one.
local function log_answer(count, newest_us, leaves_us, now_us, limit, window_us, cost, charging)
  local allowed, wait_us, reset_us = 1, 0, 0
  if cost > limit - count then
    allowed, wait_us = 0, -1
    if cost <= limit then wait_us = leaves_us - now_us + window_us end
  elseif charging then
    if count == 0 or newest_us < now_us then newest_us = now_us end
    count = count + cost
  end
  if count > 0 then reset_us = newest_us - now_us + window_us end
  local remaining = limit - count
  if remaining < 0 then remaining = 0 end -- the limit was lowered below what is used
  return allowed, remaining, wait_us, reset_us
end
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
                answer_of_log, members_of_log = log_answer, log_members
              end
            end
          end
          if not right then break end
          this = {algorithm, a, b, c, cost, amount, enforced, hint, false, cold, kept_us}
          rows[row_count], row = this, this
        end
        place = place + 5
      end
      if this ~= row then
        row, algorithm, a, b, c = this, this[1], this[2], this[3], this[4]
        cost, amount, enforced, hint, cold = this[5], this[6], this[7], this[8], this[10]
      end

      -- Its key. `at` is the first check of it.
      local key, at, known, halted = keys[check], check, false, status < 0
      if first_of then
        local first = first_of[key]
        if not first then
          first_of[key] = check
        else
          if first ~= check then
            last_of = last_of or {}
            local last = last_of[first] or 0
            if first > from or last > from and last ~= check then right = false break end
            last_of[first], at = check, first
          end
          known = row_of[at]
          if known and known ~= row then
            if known[1] == algorithm and known[2] == a and known[3] == b and known[4] == c
              and known[10] == cold then
              row_of[at] = row -- the same limit, another cost
            else
              known = false
              halted = halted or used_of[at] ~= stored_of[at]
            end
          end
        end
      end

      -- Its answer. Without `remaining` there is none; there may be Redis's error, in `allowed`.
      local allowed, remaining, wait_us, reset_us, used
      if halted then
        remaining = nil
      elseif algorithm == SLIDING_WINDOW then
        local older, later, since = 0, 0, 0
        if known then
          used, older, later, since = used_of[at], left_of[at], number_of[at], before_of[at]
        else
          used = pcall("ZCARD", key)
          if type(used) == "table" then
            allowed = used
          else
            if used > 0 then
              -- What does not count is counted: it is less.
              older, since = call("ZCOUNT", key, "-inf", hint), call("ZCOUNT", key, now_text, "+inf")
              if since > 0 then later = call("ZCOUNT", key, format("(%d", now_us + b), "+inf") end
              used = used - older - later
            end
            row_of[at], stored_of[at] = row, used
            left_of[at], number_of[at], before_of[at] = older, later, since
          end
        end
        if not allowed then
          local newest_us, leaves_us, fits = 0, 0, used + cost <= a
          -- A charge makes now the newest, but for a clock that has stepped back.
          if used > 0 and not (charging and fits and since == later) then
            -- The time of what counts, by its rank from 0; what this call has charged is of now.
            local function time_of(rank)
              local charged, earlier = used - stored_of[at], stored_of[at] - since + later
              if rank >= earlier then
                if rank < earlier + charged then return now_us end
                rank = rank - charged
              end
              rank = format("%d", older + rank)
              return call("ZRANGE", key, rank, rank, "WITHSCORES")[2] * 1
            end
            newest_us = time_of(used - 1)
            if not fits and cost <= a then leaves_us = time_of(used + cost - a - 1) end
          end
          allowed, remaining, wait_us, reset_us =
            answer_of_log(used, newest_us, leaves_us, now_us, a, b, cost, charging)
        end
      else
        local state = not known and (states and states[check] or pcall("GET", key))
        if state and #state == 0 and state.err then
          allowed = state
        elseif algorithm <= LEAKY_BUCKET then
          local ahead_us
          if known then
            used, ahead_us = used_of[at], left_of[at]
          else
            used, ahead_us = used_of_bucket(state, now_us, a, b, c, hint, cold)
            row_of[at] = row
            stored_of[at] = used
            left_of[at] = ahead_us
          end
          allowed, remaining, wait_us, reset_us = answer_of_bucket(used, ahead_us, a, b, c, cost, charging)
          if algorithm == LEAKY_BUCKET and charging and allowed == 1 then
            -- Held until what was in the queue has drained: the reset before the charge.
            local _, _, _, hold_us = answer_of_bucket(used, ahead_us, a, b, c, cost)
            wait_us = hold_us
          end
        elseif algorithm == FIXED_WINDOW then
          local left_us
          if known then
            used, left_us = used_of[at], left_of[at]
          else
            number_of[at], left_us, used = used_of_fixed(state, now_us, b, c, hint)
            row_of[at] = row
            stored_of[at] = used
            left_of[at] = left_us
          end
          allowed, remaining, wait_us, reset_us = answer_of_fixed(used, left_us, a, cost, charging)
        else
          local left_us, before
          if known then
            used, left_us, before = used_of[at], left_of[at], before_of[at]
          else
            number_of[at], left_us, before, used = used_of_counter(state, now_us, b, c, hint)
            row_of[at] = row
            stored_of[at] = used
            left_of[at] = left_us
            before_of[at] = before
          end
          allowed, remaining, wait_us, reset_us =
            answer_of_counter(before, used, left_us, a, b, cost, charging)
        end
      end

      if remaining then
        reply[n + 1] = allowed
        reply[n + 2] = remaining
        reply[n + 3] = wait_us
        reply[n + 4] = reset_us
        if to > from + 1 then
          reset_before = reset_before or {}
          reset_before[check] = reset_of[at]
        end
        reset_of[at] = reset_us
        if charging and allowed == 1 then used_of[at] = used + amount else used_of[at] = used end
      else
        reply[n + 1], reply[n + 2], reply[n + 3], reply[n + 4] = 0, 0, 0, 0
      end
      n = n + 4
      if allowed ~= 1 and (enforced and status == 1 or not remaining and status >= 0) then
        -- The request is refused: what its earlier checks have charged is taken back.
        if charging then
          for i = from + 1, check - 1 do
            if reply[top + 4 * (i - from) - 3] == 1 then
              local first = first_of[keys[i]]
              used_of[first], reset_of[first] = used_of[first] - row_of[first][6], reset_before[i]
            end
          end
        end
        if halted then -- it waits until what another limit has charged to this key is written
          check, to, place, n, row_count = from, from, start - 1, top - 1, own_rows
          break
        end
        status = 0
        if not remaining then
          if not find(allowed.err, "WRONGTYPE", 1, true) then return allowed end
          status = -1
          for i = top + 1, n do reply[i] = 0 end
        elseif charging and check > from + 1 then
          -- These answer again, for a request that charges nothing.
          check, place, n, row_count = from, start, top, own_rows
        end
        charging, reply[top] = false, status
      end
    end
    text = argv[place]
  end

  if not right or check < key_count then
-- What is wrong with ARGV[index], or nil when it is a whole number from low to high.
-- negative: what a minus before it stands for, where one may stand.
local function argument_error(argv, index, name, low, high, negative)
  local text = argv[index]
  local digits = string.match(text or "", negative and "^%-?(%d+)$" or "^%d+$")
  local value = tonumber(digits or "")
  -- The text of 2^53 is compared too: 2^53+1 would be read as the same double.
  if value and low <= value and value <= high and (value < 2^53 or digits == "9007199254740992") then
    return nil
  end
  local found = "is missing"
  if text then
    found = string.gsub(string.sub(text, 1, 40), "[^%w%p ]", "?")
    found = string.format(digits and "= %s" or '= "%s"', found)
  end
  local want = string.format(low == high and "%d" or "%d to %d", low, high)
  if negative then want = want .. ", or negative for " .. negative end
  return string.format("ERR ARGV[%d]: %s %s, want %s", index, name, found, want)
end
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
    local problem = call_error(keys, argv, argument_error)
    if problem or not right then return redis.error_reply(problem or "ERR an argument is wrong") end
  end

  -- What is charged is written.
  for i = 1, check do
    local used, this = used_of[i], row_of[i]
    if this and used ~= stored_of[i] then
      local key, left, state = keys[i], left_of[i], nil
      local ttl_ms = format("%d", (reset_of[i] + this[11] + 999) / 1000 + spare_ms) -- %d drops a fraction
      if this ~= row then row, algorithm, b, c = this, this[1], this[3], this[4] end
      if algorithm <= LEAKY_BUCKET then
        if left > 0 or check == 1 then
          state = format("%d:%d:%d", used, b, now_us + left)
        else
          row[9] = row[9] or format("%%d:%d:%d", b, now_us) -- the same for all keys of a row
          state = format(row[9], used)
        end
      elseif algorithm == FIXED_WINDOW then
        if left > b or check == 1 then
          state = format("%d:%d:%d:%d", number_of[i], b, c, used)
        else
          row[9] = row[9] or format("%d:%d:%d:%%d", number_of[i], b, c)
          state = format(row[9], used)
        end
      elseif algorithm == SLIDING_COUNTER then
        if left > b or check == 1 then
          state = format("%d:%d:%d:%d:%d", number_of[i], b, c, before_of[i], used)
        else
          row[9] = row[9] or format("%d:%d:%d:%%d:%%d", number_of[i], b, c)
          state = format(row[9], before_of[i], used)
        end
      else
        local charged, first = used - stored_of[i], 0
        if before_of[i] > 0 then first = call("ZCOUNT", key, now_text, now_text) end
        -- ZADD comes first: a Redis that is out of memory refuses it, and then nothing is done.
        repeat
          local some = charged > 100 and 100 or charged -- unpack takes some thousands
          call("ZADD", key, unpack(members_of_log(now_text, first, some)))
          first, charged = first + some, charged - some
        until charged == 0
        if left > 0 then call("ZREMRANGEBYSCORE", key, "-inf", this[8]) end
        if number_of[i] > 0 then call("ZREMRANGEBYSCORE", key, format("(%d", now_us + b), "+inf") end
        call("PEXPIRE", key, ttl_ms)
      end
      if state then call("SET", key, state, "PX", ttl_ms) end
    end
  end
  if check < key_count then
    row, row_of, first_of, last_of, states = nil, {}, {}, nil, nil
  end
until check == key_count
return n > 0 and reply or {}
