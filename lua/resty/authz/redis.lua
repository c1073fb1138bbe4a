-- The buckets in Redis, over cosockets. It calls the scripts of the service under the same keys,
-- so that a request counted here is counted there.
--
-- Every request takes a connection of its own from the worker's pool and gives it back; nothing
-- else is shared. After any error the connection is closed: what it would say next may be the
-- answer to a request that has given up.

local duration = require "resty.authz.duration"
local kind_of = require "resty.authz.kind"
local now = require("resty.authz.nginx").now

local ceil, min = math.ceil, math.min
local find, format, sub = string.find, string.format, string.sub
local unpack, type = unpack, type

local _M = {}
_M.__index = _M

local OPTIONS = {
    host = "string", port = "number", socket = "string", user = "string", password = "string",
    database = "number", tls = "boolean", tls_verify = "boolean", tls_name = "string",
    timeout = "duration", connect_timeout = "duration", send_timeout = "duration",
    read_timeout = "duration", pool_size = "number", pool_idle = "duration",
}
local ALGORITHMS = {
    token_bucket = 1, leaky_bucket = 2, fixed_window = 3, sliding_window = 4, sliding_counter = 5,
}

-- The client library, and its name: OpenResty's, else Debian's older one.
local function find_library()
    for _, name in ipairs {"resty.redis", "nginx.redis"} do
        local found, library = pcall(require, name)
        if found then return library, name end
    end
    return nil, "redis: neither resty.redis nor nginx.redis is installed (OpenResty has the first, "
        .. "Debian's lua-nginx-redis the second)"
end

-- What is wrong with the options, or nil. timeouts become milliseconds.
local function option_error(options, ms)
    for name, value in pairs(options) do
        local want = OPTIONS[name]
        if not want then
            local known = {}
            for option in pairs(OPTIONS) do known[#known + 1] = option end
            table.sort(known)
            return format("redis.%s is no option, want one of %s", tostring(name), table.concat(known, ", "))
        elseif want == "duration" then
            local problem
            ms[name], problem = duration.ms(value)
            if problem then return format("redis.%s %s", name, problem) end
        elseif type(value) ~= want then
            return format("redis.%s is a %s, want a %s", name, type(value), want)
        end
    end
    if options.socket and (options.host or options.port or options.tls) then
        return "redis.socket stands beside host, port or tls, want one or the other"
    elseif (options.tls_name or options.tls_verify ~= nil) and not options.tls then
        return "redis.tls_name and redis.tls_verify are for TLS, want redis.tls = true beside them"
    elseif options.user and not options.password then
        return "redis.user has no redis.password beside it"
    end
    for name, least in pairs {port = 1, database = 0, pool_size = 1} do
        local value = options[name]
        if value and (value < least or value % 1 ~= 0) then
            return format("redis.%s = %s, want a whole number from %d", name, tostring(value), least)
        end
    end
end

-- What the library cannot do and the options ask for, or nil. Debian's makes a command of every
-- name that it is asked for, hence rawget.
local function library_error(library, name, options)
    if rawget(library, "set_timeouts") then return nil end
    if options.tls then
        return format("redis.tls = true, but %s has no TLS, want resty.redis 0.28 or later", name)
    end
    for _, option in ipairs {"connect_timeout", "send_timeout", "read_timeout"} do
        if options[option] then
            return format("redis.%s is set, but %s has one timeout for all, want redis.timeout or "
                .. "resty.redis 0.28 or later", option, name)
        end
    end
end

-- A pooled connection is logged in and on its database: whatever differs in that is another pool.
local function pool_name(options, address)
    local user = ngx.encode_base64(ngx.sha1_bin((options.user or "") .. "\0" .. (options.password or "")))
    return format("authz|%s|%d|%s|%s|%s|%s", address, options.database or 0, user,
        tostring(options.tls or false), tostring(options.tls_verify ~= false), options.tls_name or "")
end

--- new returns a store, or nil and what is wrong with the options. Nothing is connected yet.
-- log(kind, text) is told what an operator may want to know and no request suffers from.
function _M.new(options, scripts, log)
    local ms = {}
    local problem = option_error(options, ms)
    if problem then return nil, problem end
    local library, name = find_library()
    if not library then return nil, name end
    problem = library_error(library, name, options)
    if problem then return nil, problem end

    local self = {library = library, scripts = scripts, options = options, log = log}
    self.has_timeouts = rawget(library, "set_timeouts") and true or false
    local step = ms.timeout or 50
    self.connect_ms, self.send_ms = ms.connect_timeout or step, ms.send_timeout or step
    self.read_ms = ms.read_timeout or step
    self.whole_ms = step
    if not ms.timeout and (ms.connect_timeout or ms.send_timeout or ms.read_timeout) then
        self.whole_ms = self.connect_ms + self.send_ms + self.read_ms
    end
    self.idle_ms, self.pool_size = ms.pool_idle or 60000, options.pool_size or 64
    local address
    if options.socket then
        self.host = "unix:" .. options.socket
        address = self.host
    else
        self.host, self.port = options.host or "127.0.0.1", options.port or 6379
        address = format("%s|%d", self.host, self.port)
    end
    self.greets = options.password ~= nil or (options.database or 0) > 0
    self.connect_options = {pool = pool_name(options, address)}
    if options.tls then
        self.connect_options.ssl = true
        self.connect_options.ssl_verify = options.tls_verify ~= false
        self.connect_options.server_name = options.tls_name or self.host
    end
    return setmetatable(self, _M)
end

-- Gives each step no more than is left of a call.
local function set_timeouts(self, connection, left_ms)
    if self.has_timeouts then
        connection:set_timeouts(min(self.connect_ms, left_ms), min(self.send_ms, left_ms),
            min(self.read_ms, left_ms))
    else
        connection:set_timeout(min(self.read_ms, left_ms))
    end
end

-- An error of Redis without what it, or a proxy before it, quotes of a command that it does not know: the
-- password may be among that.
local function without_arguments(err)
    local at = find(err, ", with args beginning with", 1, true)
    return at and sub(err, 1, at - 1) or err
end

-- Sends a command, of a call that began at begun_s. reply, or nil, the error's text and kind; the connection
-- is closed then. The varargs, which LuaJIT does not compile here, keep it from one piece of this and of the
-- library's loop over the arguments: it made that anew for each request, at more than twice the cost of all.
local function command(self, connection, begun_s, name, ...)
    local understood, reply, err = true, nil, "timeout"
    local left_ms = self.whole_ms - ceil((now() - begun_s) * 1000)
    if left_ms < self.whole_ms and left_ms > 0 then -- before that what connect() gave still holds
        set_timeouts(self, connection, left_ms)
    end
    if left_ms > 0 then
        understood, reply, err = pcall(connection[name], connection, ...)
    end
    if not understood or reply == nil and err == nil then -- the library trips over a length that is no number
        connection:close()
        return nil, "Redis sent no reply at all: " .. tostring(reply), "malformed"
    end
    if reply then return reply end -- ngx.null, for one, is no error
    if reply == false then
        err = without_arguments(err)
        local kind = kind_of.reply(err)
        if kind ~= "noscript" then connection:close() end
        return nil, err, kind
    end
    connection:close()
    return nil, err, kind_of.connection(err)
end

-- Logs in and selects the database, on a connection that is new.
local function greet(self, connection, begun_s)
    local options, reply, err, kind = self.options, true, nil, nil
    if options.user then
        reply, err, kind = command(self, connection, begun_s, "auth", options.user, options.password)
    elseif options.password then
        reply, err, kind = command(self, connection, begun_s, "auth", options.password)
    end
    if reply and (options.database or 0) > 0 then
        reply, err, kind = command(self, connection, begun_s, "select", format("%d", options.database))
    end
    return reply, err, kind
end

-- A connection that is logged in, or nil, the error's text and kind.
local function connect(self, begun_s)
    local connection, err = self.library:new()
    if not connection then return nil, err, "network" end
    set_timeouts(self, connection, self.whole_ms)
    local connected
    if self.port then
        connected, err = connection:connect(self.host, self.port, self.connect_options)
    else
        connected, err = connection:connect(self.host, self.connect_options)
    end
    if not connected then
        connection:close() -- a failed handshake leaves it open
        return nil, err, kind_of.connecting(err)
    end
    if self.greets and connection:get_reused_times() == 0 then
        local ok, said, kind = greet(self, connection, begun_s)
        if not ok then return nil, said, kind end
    end
    return connection
end

local function malformed(text, ...)
    return nil, "Redis sent no reply of our script: " .. format(text, ...), "malformed"
end

-- Whether four numbers of a reply, from `at` on, are a result: no number that the scripts never write may be
-- taken for an answer.
local function is_row(reply, at)
    local allowed, remaining, wait_us, reset_us = reply[at], reply[at + 1], reply[at + 2], reply[at + 3]
    return (allowed == 0 or allowed == 1)
        and type(remaining) == "number" and remaining >= 0
        and type(wait_us) == "number" and wait_us >= -1
        and type(reset_us) == "number" and reset_us >= 0
end

-- Whether a reply is what the script writes: n numbers, in rows of four; those of take follow a status.
local function is_reply(reply, n)
    if type(reply) ~= "table" or #reply ~= n then return false end
    for at = 1 + n % 4, n, 4 do
        if not is_row(reply, at) then return false end
    end
    return n % 4 == 0 or type(reply[1]) == "number"
end

--- call runs a script once. An answer NOSCRIPT proves that nothing ran, and is followed by the
-- text; after any other error nobody knows whether it ran, and nothing is sent again.
-- What follows n is numkeys, the keys, and ARGV. It returns the reply, n numbers, or nil, the error's text
-- and kind.
function _M:call(script, n, ...)
    local begun_s = now()
    local connection, err, kind = connect(self, begun_s)
    if not connection then return nil, err, kind end
    script = self.scripts[script]
    local reply
    reply, err, kind = command(self, connection, begun_s, "evalsha", script.sha, ...)
    if kind == "noscript" then
        self.log(kind, "Redis has forgotten the scripts, as after a restart: they are sent again")
        reply, err, kind = command(self, connection, begun_s, "eval", script.text, ...)
    end
    if not reply then return nil, err, kind end
    if not is_reply(reply, n) then
        connection:close()
        return malformed("want %d numbers in their bounds", n)
    end
    connection:set_keepalive(self.idle_ms, self.pool_size)
    return reply
end

--- get returns the text of a key, false when there is none, or nil, the error's text and kind.
function _M:get(key)
    local begun_s = now()
    local connection, err, kind = connect(self, begun_s)
    if not connection then return nil, err, kind end
    local reply
    reply, err, kind = command(self, connection, begun_s, "get", key)
    if not reply then return nil, err, kind end
    if type(reply) ~= "string" and reply ~= ngx.null then
        connection:close()
        return nil, "Redis sent no text", "malformed"
    end
    connection:set_keepalive(self.idle_ms, self.pool_size)
    return reply ~= ngx.null and reply
end

-- The arguments of a check without its cost, as texts: four for take, and in own the three for the script
-- of its algorithm. A rate keeps them.
local words_of = setmetatable({}, {__mode = "k"})

function _M.words(limit, rate)
    local words = words_of[rate]
    if words then return words end
    local algorithm = ALGORITHMS[limit.algorithm]
    local a, b, c, third = rate.limit, rate.window_us, rate.offset_us, rate.offset_us
    if algorithm <= 2 then a, b, c, third = rate.n, rate.w, rate.capacity, rate.burst end
    if limit.shadow then algorithm = -algorithm end
    c, third = format("%d", c), format("%d", third)
    if rate.initial > 0 then -- a token bucket that does not start full
        c = format("%s/%d", c, (rate.burst - rate.initial) * rate.w)
        third = format("%s/%d", third, rate.initial)
    end
    words = {format("%d", algorithm), format("%d", a), format("%d", b), c}
    words.own = {format("%d", rate.limit), format("%d", rate.window_us), third}
    words_of[rate] = words
    return words
end

local function cost_text(cost)
    local text = cost == 1 and "1" or format("%d", cost)
    return text -- no tail call into format, for the reason that nginx.lua gives
end

-- The result in the four numbers of a reply that begin at `at`.
local function row(reply, at)
    return {
        allowed = reply[at] == 1, remaining = reply[at + 1], wait_us = reply[at + 2],
        reset_us = reply[at + 3],
    }
end

--- take_one is take for one check, by the script of its algorithm: it does the same in two thirds of the
-- time. It returns the result, or nil, the error's text and kind.
function _M:take_one(now_us, check, peek)
    local own, cost = check.own or _M.words(check.limit, check.rate).own, cost_text(check.cost)
    local reply, err, kind
    if peek or now_us and now_us > 0 then
        reply, err, kind = self:call(check.limit.algorithm, 4, 1, check.key, own[1], own[2], own[3], cost,
            format("%d", now_us or 0), peek and 1 or 0)
    else -- what a script is quickest at
        reply, err, kind = self:call(check.limit.algorithm, 4, 1, check.key, own[1], own[2], own[3], cost)
    end
    if not reply then return nil, err, kind end
    return row(reply, 1)
end

local function read_reply(reply, checks)
    if reply[1] == -1 then
        return nil, "a key of this request holds another Redis type: delete it", "wrongtype"
    end
    local results, admitted = {}, 1
    for i = 1, #checks do
        local result = row(reply, 4 * i - 2)
        results[i] = result
        if not result.allowed and not checks[i].limit.shadow then admitted = 0 end
    end
    if reply[1] ~= admitted then return malformed("status %d, want %d by the rows", reply[1], admitted) end
    return results
end

--- take charges every check of a request or none, in one EVALSHA, and returns a result for each:
-- allowed (true or false), remaining, wait_us, reset_us. now_us nil or 0: Redis's clock. A peek
-- charges nothing. On failure it returns nil, the error's text and kind.
function _M:take(now_us, checks, peek)
    local n = #checks
    if n == 1 then
        local result, err, kind = self:take_one(now_us, checks[1], peek)
        if not result then return nil, err, kind end
        return {result}
    end
    local args = {n}
    for i = 1, n do args[i + 1] = checks[i].key end
    args[n + 2] = format("%d", now_us or 0)
    args[n + 3] = peek and -n or n
    local to = n + 3
    for i = 1, n do
        local check = checks[i]
        local words = _M.words(check.limit, check.rate)
        args[to + 1], args[to + 2], args[to + 3], args[to + 4] = words[1], words[2], words[3], words[4]
        args[to + 5] = cost_text(check.cost)
        to = to + 5
    end
    local reply, err, kind = self:call("take", 1 + 4 * n, unpack(args))
    if not reply then return nil, err, kind end
    return read_reply(reply, checks)
end

return _M
