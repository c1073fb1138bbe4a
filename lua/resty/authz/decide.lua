--- How a request is decided: by the rules, then by Redis or the refusal cache in front of it, and by on_error when
-- Redis cannot answer. self is the authz of new{}.

local attrs = require "resty.authz.attrs"
local decision = require "resty.authz.decision"
local nginx = require "resty.authz.nginx"

local ngx = ngx
local format = string.format

local _M = {}

--- A line of the error log every half a minute, or every period, for each kind of trouble, however many
-- requests have it.
function _M.log_seldom(self, kind, text, period)
    period = period or 30
    local now = ngx.now()
    if now < (self.logged[kind] or 0) then -- known here, where a full dict forgets it
        return
    end
    self.logged[kind] = now + period
    if self.shdict.dict:add("\0logged|" .. kind, true, period) then
        ngx.log(ngx.ERR, "authz: ", text)
    end
end

-- Counts what each limit said, and makes one answer of it.
local function decide(self, checks, results)
    for i = 1, #checks do
        local check, result = checks[i], results[i]
        self.metrics:decision(check.limit, result.allowed and "admitted" or "limited")
        if result.allowed and decision.near(check, result) then
            self.metrics:near(check.limit)
        end
    end
    return decision.decide(checks, results)
end

-- Answers without Redis.
local function degrade(self, checks, err, kind, by_clients)
    self.metrics:store_error(kind)
    _M.log_seldom(self, kind, format("Redis cannot answer (%s), on_error decides: %s", kind, err))
    local client_caused = by_clients or decision.client_caused(kind)
    local d, left = decision.degrade(checks, client_caused)
    if d.verdict == "admitted" and #left > 0 then
        local by_share = decide(self, left, self.shdict:take(nil, left))
        if by_share.limit then
            by_share.degraded = d.degraded
            d = by_share
        end
    end
    for i = 1, #checks do
        local limit = checks[i].limit
        local by = decision.on_error(limit, client_caused)
        if by == "deny" and not limit.shadow then
            self.metrics:decision(limit, "unavailable")
        elseif by == "allow" then
            self.metrics:decision(limit, "admitted")
        end
    end
    if d.degraded then
        self.metrics:degraded(d.degraded)
    end
    return d
end

-- The checks that are not shadows.
local function enforcing_of(checks)
    local enforcing = {}
    for i = 1, #checks do
        if not checks[i].limit.shadow then
            enforcing[#enforcing + 1] = checks[i]
        end
    end
    return enforcing
end

-- Asks Redis about shadows while their request goes on.
local function ask_shadows(premature, self, checks)
    if premature then
        return
    end
    local results, _, kind = self.redis:take(nil, checks)
    if results then
        decide(self, checks, results)
    else
        self.metrics:store_error(kind)
    end
end

-- Asks Redis, or the refusal cache in front of it.
local function ask_redis(self, set, checks)
    local age = self.refusals and self.refusals:age(set)
    if age then
        local refusal = self.refusals:find(age, checks, self.metrics)
        if refusal then
            self.metrics:remembered()
            return refusal
        end
    end
    local sent_us = age and nginx.now_us()
    local results, err, kind, by_clients = self.redis:take(nil, checks)
    if kind == "wrongtype" and #checks > 1 then -- nothing was charged: it may be a shadow's key alone
        local enforcing = enforcing_of(checks)
        if #enforcing > 0 and #enforcing < #checks then
            self.metrics:store_error(kind)
            checks = enforcing
            results, err, kind, by_clients = self.redis:take(nil, checks)
        end
    end
    if not results then
        return degrade(self, checks, err, kind, by_clients)
    end
    local d = decide(self, checks, results)
    if age and d.verdict == "limited" then
        self.refusals:remember(age, checks, results, sent_us)
    end
    return d
end

local function decide_checks(self, set, checks)
    for i = 1, #checks do
        if checks[i].rate.limit == 0 then
            self.metrics:decision(checks[i].limit, "limited")
        end
    end
    local refusal, rest = decision.refuse_at_once(checks)
    if refusal then
        return refusal
    elseif #rest == 0 then
        return decision.new("admitted")
    elseif self.redis and #enforcing_of(rest) == 0 then -- nobody waits for a shadow
        ngx.timer.at(0, ask_shadows, self, rest)
        return decision.new("admitted")
    elseif self.redis then
        return ask_redis(self, set, rest)
    end
    return decide(self, rest, self.shdict:take(nil, rest))
end

-- Counts a request whose $remote_addr is no address, as on a unix socket. Logs what to do, once a minute.
local function note_no_address(self, text)
    if not text or text == "" then
        self.metrics:unknown_ip()
        return
    end
    self.metrics:unreadable_ip()
    _M.log_seldom(self, "address", format("the address of a client cannot be read, %q; it counts as ip=unknown. "
        .. "Where nginx listens on a unix socket, set_real_ip_from unix: and real_ip_header name the client",
        text:sub(1, 64)), 60)
end

--- Decides the request, which has this target, by the set of limits.
function _M.request(self, set, target)
    local asked = attrs.of_request(target)
    local m = set:match(asked)
    if not m.address then
        note_no_address(self, asked.ip)
    end
    for i = 1, #m.missing do
        self.metrics:missing(m.missing[i])
    end
    for i = 1, #m.unlimited do
        self.metrics:decision(m.unlimited[i], "admitted")
    end
    if m.verdict == "limits" then
        return decide_checks(self, set, m.checks)
    elseif m.verdict == "none" then
        return decision.new("admitted")
    elseif m.verdict == "allow" then
        self.metrics:rule(m.rule, "admitted")
        return decision.new("admitted")
    end
    if m.limit then
        self.metrics:decision(m.limit, "blocked")
    elseif m.rule ~= "" then
        self.metrics:rule(m.rule, "blocked")
    end
    return decision.new("blocked", m.limit)
end

return _M
