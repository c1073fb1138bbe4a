--- A breaker in front of Redis, for all workers of an nginx: it stands in the shared dict. After three failures in
-- a row, of those that mean that Redis is out of reach or does not answer, nobody waits for it: on_error answers at
-- once. Probes ask meanwhile, with no client's request; the first that is answered closes the breaker.
-- internal/store/redisstore/breaker.go is the service's.

local now = require("resty.authz.nginx").now

local min = math.min

local IN_A_ROW = 3
local FIRST_PAUSE_S, LAST_PAUSE_S = 0.01, 0.5
local AGAIN_S = 0.1 -- a doubt follows the one before
local STALE_S = 2 -- a breaker whose prober has ended with its worker lets a request try after so long
local OUT_OF_REACH = {timeout = true, network = true, pool = true, noauth = true}

local _M = {}
_M.__index = _M

--- A breaker in a dict, for the Redis of this scope. ping() returns true if Redis answers in time, with an error
-- too, or false and the error's text; log(text) is told of each change.
-- Failures within timeout_s, the time of a request, of one that clients caused are put down to them too.
function _M.new(dict, scope, timeout_s, ping, log)
    return setmetatable({
        dict = dict, ping = ping, log = log, timeout_s = timeout_s,
        failures = "\0failures|" .. scope, open = "\0open|" .. scope,
        blame = "\0blame|" .. scope, doubted = "\0doubt|" .. scope,
    }, _M)
end

--- begin returns what learn wants to hear, or nil, the error's text, kind and whether clients may have caused the
-- failures that opened the breaker.
function _M:begin()
    local failures = self.dict:get(self.failures)
    if not failures then
        return 0
    end
    local cause, by_clients = self.dict:get(self.open)
    if cause then
        return nil, "Redis is not asked until a probe is answered: " .. cause, "breaker", by_clients == 1
    end
    return failures
end

local probe

local function probe_in(self, pause_s, opened_s)
    self.dict:expire(self.open, STALE_S)
    if not ngx.timer.at(pause_s, probe, self, pause_s, opened_s) then
        self.dict:delete(self.open) -- no timer is left: the next request tries
    end
end

local function open(self, err, by_clients)
    if self.dict:add(self.open, err, STALE_S, by_clients and 1 or 0) then
        self.log("the breaker is open: Redis is not asked until a probe is answered, on_error decides: " .. err)
        probe_in(self, FIRST_PAUSE_S, now())
    end
end

probe = function(premature, self, pause_s, opened_s)
    if premature then
        return
    elseif self.ping() then
        self.dict:delete(self.failures)
        self.dict:delete(self.blame)
        if self.dict:get(self.open) then
            self.dict:delete(self.open)
            self.log("the breaker is closed: Redis answers")
        end
        return
    end
    local cause, by_clients = self.dict:get(self.open)
    if by_clients == 1 and now() - opened_s >= LAST_PAUSE_S then
        self.dict:set(self.open, cause, STALE_S, 0) -- nobody asks: no client has brought that about
    end
    probe_in(self, min(2 * pause_s, LAST_PAUSE_S), opened_s)
end

-- Finds out what a crowd cannot tell that waits in vain: whether Redis has too much to do, or hangs. One that answers
-- nothing in time until then hangs.
local function doubt(premature, self, until_s)
    if premature then
        return
    end
    local answers, err = self.ping()
    if answers then
        self.dict:set(self.doubted, true, AGAIN_S)
    elseif now() >= until_s then
        self.dict:delete(self.doubted)
        self.dict:set(self.failures, IN_A_ROW)
        open(self, err, false)
    else
        ngx.timer.at(FIRST_PAUSE_S, doubt, self, until_s)
    end
end

--- learn takes in what came of a call that began with `failures`: err and kind nil if Redis decided it.
-- client_caused: clients can bring such a failure about. It returns whether they may have caused this one: Redis
-- is out of reach, and just before that it had too much to do.
function _M:learn(failures, err, kind, client_caused)
    local dict = self.dict
    if client_caused then
        dict:set(self.blame, true, self.timeout_s)
    end
    if kind == "queue" and dict:add(self.doubted, true, STALE_S) then
        ngx.timer.at(0, doubt, self, now() + LAST_PAUSE_S)
    end
    if not OUT_OF_REACH[kind] then
        if failures > 0 and not client_caused then
            dict:delete(self.failures)
            dict:delete(self.blame)
        end
        return
    end
    -- What fails together fails once: a call counts only if it began after the one that counted before.
    local by_clients = dict:get(self.blame)
    if (dict:get(self.failures) or 0) ~= failures then
        return by_clients
    end
    local n = dict:incr(self.failures, 1, 0)
    if n and n >= IN_A_ROW then
        open(self, err, by_clients)
    end
    return by_clients
end

return _M
