--- authz inside nginx: the limits file, the Redis scripts, the keys and the answers of the service, with
-- no hop in between. README.md has a complete nginx.conf.
--
--     init_by_lua_block   { authz = assert(require("resty.authz").new{policy = "limits.json", redis = {}}) }
--     access_by_lua_block { authz.access() }

local breaker = require "resty.authz.breaker"
local decide = require "resty.authz.decide"
local decision = require "resty.authz.decision"
local metrics = require "resty.authz.metrics"
local nginx = require "resty.authz.nginx"
local numbers = require "resty.authz.numbers"
local option = require "resty.authz.options"
local policy = require "resty.authz.policy"
local redis = require "resty.authz.redis"
local refusals = require "resty.authz.refusals"
local request = require "resty.authz.request"
local scripts = require "resty.authz.scripts"
local shdict = require "resty.authz.shdict"

local ngx = ngx
local format, min = string.format, math.min
local variable = nginx.variable

local _M = {}

_M._VERSION = "0.1.0"

-- The phases that cannot wait, for Redis or for another worker.
local HASTY = {
    init = true, init_worker = true, exit_worker = true, set = true, balancer = true, header_filter = true,
    body_filter = true, log = true, ssl_session_store = true,
}

-- The phases after which nginx goes on with the request that access() lets pass. After content nothing
-- comes: nginx would serve the file that the URL names instead.
local PASSING = {server_rewrite = true, rewrite = true, access = true}

-- The phase, or an error at the line of the user, who called our caller's caller.
local function check_phase(what)
    local phase = ngx.get_phase()
    if HASTY[phase] then
        error(format("authz.%s: this is %s, want a phase that can wait, such as access, content or timer",
            what, phase), 4)
    end
    return phase
end

-- The same for what lets a request pass; level is the user's, from here.
local function check_passing(what, level)
    local phase = ngx.get_phase()
    if not PASSING[phase] then
        error(format("authz.%s: this is %s, want access, rewrite or server_rewrite", what, phase), level)
    end
end

-- Polls the limits from here on, in a worker whose init_worker_by_lua did not begin to: what it missed is
-- loaded before its first request is decided.
local function watch_late(self)
    if not self.logged.watch_late then
        self.logged.watch_late = true
        ngx.log(ngx.NOTICE, "authz: want init_worker_by_lua_block { authz.init_worker() }: ",
            "without it the first request of a worker waits for newer limits")
        self.policy:watch()
        self.policy:catch_up()
    end
end

-- The zone that the caller brings, nil if none.
local function zone_of(options)
    if options == nil then
        return nil
    end
    local zone = type(options) == "table" and options.zone
    if type(zone) ~= "string" or next(options) ~= "zone" or next(options, "zone") then
        error('authz: check() and access() take nothing or {zone = "name"}', 4)
    end
    return zone
end

-- The decision of a client request, whether access() has to apply it, and the phase. It may have been made
-- before: nginx runs the phases again after an internal redirect and after a rewrite, which is still the
-- same request, and for subrequests, which are a part of it.
local function check(self, what, options)
    if not self.policy then
        error("authz: check() and access() need new{policy = …}", 3)
    end
    local phase, zone = check_phase(what), zone_of(options)
    local before, pending = request.decided()
    if before then
        return before, pending, phase
    end
    if zone then
        ngx.var.authz_zone = zone
    end
    local target = variable("request_uri")
    if not target then -- nginx could not read the request: this is the page of its 400
        return decision.new("admitted"), false, phase
    end
    if not self.policy.watched then
        watch_late(self)
    end
    local set = self.policy:current()
    local d = decide.request(self, set, target)
    d.hold_us = min(d.hold_us, set.defaults.hold_max_us)
    self.metrics:request(d.verdict)
    request.note(d)
    return d, true, phase
end

-- Makes nginx do what the decision says, and ends the phase. DECLINED leaves the last word to nginx's own
-- allow, deny, auth_basic and satisfy; OK would be a yes that opens what they close. What was decided before
-- was done then: this is the page of a refusal, say.
local function apply(self, d)
    if d.verdict ~= "admitted" then
        decision.refusal_headers(d, self.style, ngx.header)
        ngx.header["Cache-Control"] = "no-store" -- a refusal is one client's own
        return ngx.exit(d.status)
    end
    if self.admitted_headers and d.rate then
        decision.rate_limit_headers(d, self.style, ngx.header)
        ngx.header["Cache-Control"] = "private" -- and so are the numbers of its bucket
    end
    if d.hold_us > 0 then
        ngx.sleep(d.hold_us / 1000000)
    end
    return ngx.exit(ngx.DECLINED)
end

-- Decides one key by the numbers that the caller brings: the result, or nil, what went wrong and its kind.
local function take_one(self, algorithm, key, given)
    check_phase(algorithm)
    local row, problem = numbers.check(algorithm, key, given, self.functions.gcd)
    if not row then
        error(format("authz.%s: %s", algorithm, problem), 3)
    end
    if not self.redis then
        return self.shdict:take(row.now_us, {row}, row.peek)[1]
    end
    return self.redis:take_one(row.now_us, row, row.peek)
end

local ALGORITHMS = {"token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter"}

-- What the user is given: functions, called with a dot or a colon.
local function handle(self)
    local authz = {}
    for _, algorithm in ipairs(ALGORITHMS) do
        authz[algorithm] = function(key, given, given_after_self)
            if key == authz then
                key, given = given, given_after_self
            end
            local result, err, kind = take_one(self, algorithm, key, given)
            return result, err, kind -- no tail call: an error is at the level of our caller
        end
    end
    function authz.check(options, options_after_self)
        if options == authz then
            options = options_after_self
        end
        local d, _, phase = check(self, "check", options)
        request.leave(d, phase)
        return d
    end
    function authz.access(options, options_after_self)
        check_passing("access", 3)
        if options == authz then
            options = options_after_self
        end
        local d, pending = check(self, "access", options)
        if not pending then
            return ngx.exit(ngx.DECLINED)
        end
        request.applied(d)
        return apply(self, d)
    end
    function authz.apply(d, d_after_self)
        check_passing("apply", 3)
        d = d_after_self or d
        if d.again then
            return ngx.exit(ngx.DECLINED)
        end
        request.applied(d)
        return apply(self, d)
    end
    function authz.init_worker()
        if ngx.get_phase() ~= "init_worker" then
            error(format("authz.init_worker: this is %s, want init_worker", ngx.get_phase()), 2)
        elseif self.policy then
            self.logged.watch_late = true
            self.policy:watch()
        end
    end
    function authz.metrics()
        if not self.metrics.dict then
            error("authz: metrics() needs new{metrics = …}", 2)
        end
        ngx.header["Content-Type"] = "text/plain; version=0.0.4"
        ngx.print(self.metrics:text(self.policy))
    end
    return authz
end

--- new{…} at init: README.md has the options. A mistake in them is an error that blames the caller; what
-- the world has done (no policy, scripts of another version) is returned as nil and a text.
function _M.new(options)
    local problem = option.problem(options)
    local style
    if not problem then
        style, problem = option.header_style(options)
    end
    if problem then
        error("authz.new: " .. problem, 2)
    end
    local loaded, err = scripts.load()
    if not loaded then
        return nil, err
    end
    local self = {
        logged = {},
        functions = scripts.fragments(loaded), style = style, admitted_headers = options.admitted_headers,
        metrics = metrics.new(options.metrics and ngx.shared[options.metrics]),
    }
    if options.redis then
        self.redis, problem = redis.new(options.redis, loaded, function(kind, text)
            decide.log_seldom(self, kind, text)
        end)
        if not self.redis then
            error("authz.new: " .. problem, 2)
        end
    end
    -- What the dict holds while a Redis is away is that Redis's, and no other's that shares the dict.
    local scope = self.redis and ngx.encode_base64(ngx.sha1_bin(self.redis.connect_options.pool)) or ""
    self.shdict = shdict.new(ngx.shared[options.dict or "authz"], self.functions, scope, function(event)
        self.metrics:dict_event(event)
        if event == "full" then
            decide.log_seldom(self, event, "lua_shared_dict " .. (options.dict or "authz")
                .. " has no room for an entry, which counts as never used: make it larger")
        end
    end)
    if self.redis then
        self.redis.breaker = breaker.new(self.shdict.dict, scope, self.redis.whole_ms / 1000,
            function() return self.redis:ping() end,
            function(text) ngx.log(ngx.ERR, "authz: ", text) end)
    end
    if options.policy then
        self.policy, err = policy.new(options.policy)
        if not self.policy then
            return nil, err
        end
    end
    problem = option.size_problem(options, self.policy and self.policy.set)
    if problem then
        error("authz.new: " .. problem, 2)
    end
    if self.policy then
        self.policy:refuse(function(set) return option.size_problem(options, set) end)
        if ngx.get_phase() == "init_worker" then
            self.policy:watch()
        end
    end
    if options.refusal_cache then
        self.refusals = refusals.new(self.shdict, self.redis)
        self.refusals:loaded(self.policy.set)
        self.policy:each_load(function(set) self.refusals:loaded(set) end)
    end
    return handle(self)
end

return _M
