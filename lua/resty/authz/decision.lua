--- The answer to a request, as a pure function of its checks and of what a store said of them. It is the
-- service's answer (internal/decision, internal/service/headers.go): the same verdicts, limits and header values.
--
-- A decision is a table:
--   verdict   "admitted", "limited", "blocked", or "unavailable": the store could not answer, and a limit
--             says on_error = "deny"
--   status    what the client should see: 200, 429, 403, 503
--   limit     the deciding limit, as the policy has it; nil when none applies
--   rate      the numbers that it was decided by, nil when there are none
--   result    its result: allowed, remaining, wait_us, reset_us; means nothing without rate
--   degraded  "allow", "local" or "deny" when the store could not answer, else nil
--   hold_us   admitted: for how long the request has to wait (leaky_bucket), else 0
--   again     true: made before in this client request, of which only verdict, status and the limit's name
--             are left

local floor, max, min, format = math.floor, math.max, math.min, string.format

local _M = {}

local STATUS = {admitted = 200, limited = 429, blocked = 403, unavailable = 503}

--- A decision without numbers.
function _M.new(verdict, limit)
    return {verdict = verdict, status = STATUS[verdict], limit = limit, rate = nil, result = nil, hold_us = 0}
end

local VERDICT = {["200"] = "admitted", ["429"] = "limited", ["403"] = "blocked", ["503"] = "unavailable"}

--- The decision that was made before, from what the request's variables keep of it: the status as a text,
-- and the name of the limit, "" if there was none.
function _M.again(status, limit_name)
    local d = _M.new(VERDICT[status] or error("BUG: no decision has status " .. status))
    d.limit, d.again = limit_name ~= "" and {name = limit_name} or nil, true
    return d
end

--- A refusal by the numbers of one limit. wait_us -1: no wait helps.
function _M.limited(limit, rate, wait_us)
    return {
        verdict = "limited", status = STATUS.limited, limit = limit, rate = rate, hold_us = 0,
        result = {allowed = false, remaining = 0, wait_us = wait_us, reset_us = 0},
    }
end

local NEAR_SHARE = 5 -- one in so many is left of a capacity when a request comes near the limit

-- The most that a key can have left.
local function capacity(limit, rate)
    if rate.limit == 0 then
        return 0
    elseif limit.algorithm == "token_bucket" then
        return rate.burst
    elseif limit.algorithm == "leaky_bucket" then
        return rate.burst + 1
    end
    return rate.limit
end

--- Whether a request that a check admitted came near its limit. The first of a bucket never does: where the
-- capacity is 1 there is no other.
function _M.near(check, result)
    local size = capacity(check.limit, check.rate)
    return result.remaining * NEAR_SHARE < size and result.remaining + check.cost < size
end

-- Compares waits; -1 is for ever.
local function longer(a, b)
    return b ~= -1 and (a == -1 or a > b)
end

--- Whether a/b < c/d for whole numbers up to 2^53, exactly: products that do not fit are compared as
-- continued fractions.
function _M.less(a, b, c, d)
    local left, right = a * d, c * b
    if left < 2^53 and right < 2^53 then
        return left < right
    end
    while true do
        local p, q = floor(a / b), floor(c / d)
        if p ~= q then
            return p < q
        end
        a, c = a - p * b, c - q * d
        if c == 0 or a == 0 then
            return a == 0 and c > 0
        end
        a, b, c, d = d, c, b, a -- a/b < c/d is d/c < b/a
    end
end

--- Answers with the first "0/s" that enforces; nil when there is none. The other value is the checks
-- without any "0/s": no store is asked about one, and one that is a shadow is only counted.
function _M.refuse_at_once(checks)
    local zeros = 0
    for i = 1, #checks do
        if checks[i].rate.limit == 0 then
            zeros = zeros + 1
        end
    end
    if zeros == 0 then
        return nil, checks
    end
    local rest, refusal = {}, nil
    for i = 1, #checks do
        local check = checks[i]
        if check.rate.limit > 0 then
            rest[#rest + 1] = check
        elseif not check.limit.shadow and not refusal then
            refusal = _M.limited(check.limit, check.rate, -1)
        end
    end
    return refusal, rest
end

-- Whether the result of a check decides rather than that of the decision so far.
local function decides(d, check, result)
    if not result.allowed then
        return d.verdict == "admitted" or longer(result.wait_us, d.result.wait_us)
    end
    return d.verdict == "admitted" and (not d.limit or _M.less(
        result.remaining, capacity(check.limit, check.rate), d.result.remaining, capacity(d.limit, d.rate)))
end

--- The answer of a store. Shadow limits have no part in it. The deciding limit of a refusal is the one
-- with the longest wait, else the one with the least left of its capacity; checks come by name, so that
-- the first of equals is the first by name.
function _M.decide(checks, results)
    local d, hold_us = _M.new("admitted"), 0
    for i = 1, #checks do
        local check, result = checks[i], results[i]
        if not check.limit.shadow then
            if decides(d, check, result) then
                d.verdict = result.allowed and "admitted" or "limited"
                d.limit, d.rate, d.result = check.limit, check.rate, result
            end
            if result.allowed then
                hold_us = max(hold_us, result.wait_us)
            end
        end
    end
    d.status = STATUS[d.verdict]
    if d.verdict == "admitted" then
        d.hold_us = hold_us
    end
    return d
end

--- Whether a flood of requests can make the store fail in this way.
function _M.client_caused(kind)
    return kind == "pool" or kind == "oom" or kind == "queue"
end

local STRICTNESS = {allow = 1, ["local"] = 2, deny = 3}

--- What answers for a limit when the store failed: "allow", "local" or "deny". Where a client could have
-- caused the failure, "allow" counts as "local": nobody can buy themselves free of a limit by overloading
-- Redis.
function _M.on_error(limit, client_caused)
    if limit.on_error == "allow" and client_caused then
        return "local"
    end
    return limit.on_error
end

--- The answer when the store could not give one, and the checks that are left to the shared dict, each with
-- this machine's share. An enforcing "deny" answers at once. allow and local among the checks are in the
-- order of strictness, and the limits that say "allow" have no numbers.
function _M.degrade(checks, client_caused)
    local d, left = _M.new("admitted"), {}
    for i = 1, #checks do
        local check = checks[i]
        local by = _M.on_error(check.limit, client_caused)
        if by == "local" then
            left[#left + 1] = {limit = check.limit, rate = check.rate.share, key = check.key,
                cost = check.cost}
        end
        if not check.limit.shadow and (not d.degraded or STRICTNESS[by] > STRICTNESS[d.degraded]) then
            d.degraded, d.limit = by, check.limit
        end
    end
    if d.degraded == "deny" then
        d.verdict, d.status = "unavailable", STATUS.unavailable
    end
    return d, left
end

local function ceil_seconds(us)
    local rest = us % 1000000
    return (us - rest) / 1000000 + (rest > 0 and 1 or 0)
end

-- Of a decision that has numbers: Retry-After of a refusal, of an admitted request until its key is as if
-- never used. nil: no wait helps.
local function seconds(d, retry_after_max)
    if d.verdict == "admitted" then
        return ceil_seconds(d.result.reset_us)
    elseif d.result.wait_us < 0 then
        return nil
    end
    local wait = max(1, ceil_seconds(d.result.wait_us))
    return retry_after_max and min(wait, retry_after_max) or wait
end

-- "name";q=QUOTA;w=SECONDS. A bucket's window is the time that refills it.
local function policy_text(limit, rate, quota)
    local us, rest = rate.window_us, 0
    if limit.algorithm == "token_bucket" or limit.algorithm == "leaky_bucket" then
        us = rate.n > 0 and floor(rate.capacity / rate.n) or 0 -- 0: "0/s", which is never refilled
        rest = rate.capacity - us * rate.n
    end
    if us == 0 or rest ~= 0 or us % 1000000 ~= 0 then
        return format('"%s";q=%d', limit.name, quota)
    end
    return format('"%s";q=%d;w=%d', limit.name, quota, us / 1000000)
end

local LARGEST_COUNT = 999999999999999 -- the largest integer of a structured field (RFC 9651)

-- The texts of the headers. A rate keeps those it had last: while its clients are refused they change once a
-- second.
local texts_of = setmetatable({}, {__mode = "k"})

local function texts(d, style)
    local limit, rate = d.limit, d.rate
    local kept = texts_of[rate]
    if not kept then
        local quota = min(capacity(limit, rate), LARGEST_COUNT)
        kept = {policy = policy_text(limit, rate, quota), quota = format("%d", quota)}
        texts_of[rate] = kept
    end
    local left, t = min(d.result.remaining, LARGEST_COUNT), seconds(d, style.retry_after_max)
    if kept.of_left ~= left or kept.of_t ~= t then
        kept.of_left, kept.of_t = left, t
        kept.left, kept.t = format("%d", left), t and format("%d", t)
        kept.now = format(t and '"%s";r=%d;t=%d' or '"%s";r=%d', limit.name, left, t)
    end
    return kept
end

local function write(kept, style, header)
    if style.ietf then
        header["RateLimit-Policy"] = kept.policy
        header["RateLimit"] = kept.now
    end
    if style.legacy then
        header["X-RateLimit-Limit"] = kept.quota
        header["X-RateLimit-Remaining"] = kept.left
        if kept.t then
            header["X-RateLimit-Reset"] = kept.t
        end
    end
end

--- Writes the rate-limit headers of a decision to `header`, such as ngx.header. style: ietf and legacy
-- (true or false), retry_after_max (seconds, or nil).
function _M.rate_limit_headers(d, style, header)
    if d.rate then
        header["Cache-Control"] = "private" -- it is one client's own
        write(texts(d, style), style, header)
    end
end

--- Writes the headers that a refused client gets, likewise. A 403 has Cache-Control alone: a cache in front must not
-- give one client's refusal to the next.
function _M.refusal_headers(d, style, header)
    header["Cache-Control"] = "no-store"
    if d.verdict ~= "limited" and d.verdict ~= "unavailable" then
        return
    end
    if d.limit then
        header["X-Authz-Limit"] = d.limit.name
    end
    local kept = d.rate and texts(d, style) -- none of a decision that was made before
    local retry_after = d.verdict == "unavailable" and "1" or kept and kept.t
    if retry_after then
        header["Retry-After"] = retry_after
    end
    if kept then
        write(kept, style, header)
    end
end

return _M
