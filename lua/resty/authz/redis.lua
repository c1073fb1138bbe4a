-- The buckets in Redis, over cosockets. It calls the scripts of the service under the same keys,
-- so that a request counted here is counted there.
--
-- Every request takes a connection of its own from the worker's pool and gives it back; the calls in flight are
-- bounded. After an error the connection is closed: what it would say next may be the answer to a request that
-- has given up. Where Redis itself has answered with an error, that is done once a second: a server that was
-- demoted is left then, and not connected to anew for every check.

local connection_of = require "resty.authz.connection"
local duration = require "resty.authz.duration"
local flight = require "resty.authz.flight"
local nginx = require "resty.authz.nginx"

local concat, format, type = table.concat, string.format, type
local open_connection, word = connection_of.open, connection_of.word
local now = nginx.now

local CLIENT_CAUSED = {pool = true, oom = true, queue = true} -- what clients can bring about by what they send
local HOLD_S = 1 -- a refused login, and the life of a connection whose server answers with errors

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
local ZERO, ONE = word("0"), word("1")

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

    local self = {options = options, log = log, evalsha = {}, scripts = scripts}
    for name, script in pairs(scripts) do
        self.evalsha[name] = word("evalsha") .. word(script.sha)
    end
    local step = ms.timeout or 50
    self.connect_ms, self.send_ms = ms.connect_timeout or step, ms.send_timeout or step
    self.read_ms = ms.read_timeout or step
    self.whole_ms = step
    if not ms.timeout and (ms.connect_timeout or ms.send_timeout or ms.read_timeout) then
        self.whole_ms = self.connect_ms + self.send_ms + self.read_ms
    end
    self.idle_ms, self.pool_size = ms.pool_idle or 60000, options.pool_size or 64
    self.flight, self.closed_s = flight.new(self.pool_size), 0
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
    self.tls, self.tls_verify = options.tls, options.tls_verify ~= false
    self.tls_name = options.tls_name or self.host
    return setmetatable(self, _M)
end

-- Sends a command that is obeyed or not.
local function order(connection, count, words)
    local done, err, kind = connection:ask(count, words)
    if done then done, err, kind = connection:ok() end
    return done, err, kind
end

-- Logs in and selects the database, on a connection that is new.
local function greet(self, connection)
    local options, done, err, kind = self.options, true, nil, nil
    if options.user then
        done, err, kind = order(connection, 3, word("auth") .. word(options.user) .. word(options.password))
    elseif options.password then
        done, err, kind = order(connection, 2, word("auth") .. word(options.password))
    end
    if done and (options.database or 0) > 0 then
        done, err, kind = order(connection, 2, word("select") .. word(format("%d", options.database)))
    end
    return done, err, kind
end

-- A connection that is logged in, or nil, the error's text and kind. A login that was refused is not tried again
-- for a second.
local function open(self, until_s)
    local refused = self.refused
    if refused and now() < refused.until_s then
        return nil, refused.err, refused.kind
    end
    local connection, err, kind = open_connection(self, until_s)
    if connection and self.greets and connection:is_new() then
        local done
        done, err, kind = greet(self, connection)
        if not done then
            if connection.answered then
                self.refused = {err = err, kind = kind, until_s = now() + HOLD_S}
            end
            connection:close()
            return nil, err, kind
        end
    end
    return connection, err, kind
end

-- Ends the use of a connection after an error.
local function give_up(self, connection)
    if connection.answered and now() - self.closed_s < HOLD_S then
        connection:keep()
        return
    end
    self.closed_s = now()
    connection:close()
end

local function malformed(text, ...)
    return nil, "Redis sent no reply of our script: " .. format(text, ...), "malformed"
end

-- Whether four numbers of a reply, from `at` on, are a result: no number that the scripts never write may be
-- taken for an answer.
local function is_row(reply, at)
    local allowed, remaining, wait_us, reset_us = reply[at], reply[at + 1], reply[at + 2], reply[at + 3]
    return (allowed == 0 or allowed == 1) and remaining >= 0 and wait_us >= -1 and reset_us >= 0
end

-- Whether n numbers are what a script writes: rows of four; those of take follow a status.
local function is_reply(reply, n)
    for at = 1 + n % 4, n, 4 do
        if not is_row(reply, at) then return false end
    end
    return true
end

-- Sends a command that runs a script, and reads its n numbers.
local function run(connection, n, count, words)
    local reply, err, kind = connection:ask(count, words)
    if reply then reply, err, kind = connection:numbers(n) end
    return reply, err, kind
end

-- Sends a script and reads its reply: the reply, the error's text and kind, and whether Redis has answered.
local function send(self, script, n, count, words, until_s)
    local connection, err, kind = open(self, until_s)
    if not connection then return nil, err, kind end
    local reply
    reply, err, kind = run(connection, n, 2 + count, self.evalsha[script] .. words)
    if kind == "noscript" then
        self.log(kind, "Redis has forgotten the scripts, as after a restart: they are sent again")
        words = word("eval") .. word(self.scripts[script].text) .. words
        reply, err, kind = run(connection, n, 2 + count, words)
    end
    if reply and not is_reply(reply, n) then
        reply, err, kind = malformed("want %d numbers in their bounds", n)
    end
    if not reply then
        give_up(self, connection)
        return nil, err, kind, connection.answered
    end
    connection:keep()
    return reply, nil, nil, true
end

--- call runs a script once. An answer NOSCRIPT proves that nothing ran, and is followed by the
-- text; after any other error nobody knows whether it ran, and nothing is sent again.
-- words are numkeys, the keys, and ARGV; count says how many. It returns the reply, n numbers, or nil, the
-- error's text and kind, and of the kind "breaker" whether clients may have caused it.
function _M:call(script, n, count, words, weight)
    local failures, err, kind, by_clients = 0
    if self.breaker then
        failures, err, kind, by_clients = self.breaker:begin()
        if not failures then return nil, err, kind, by_clients end
    end
    local until_s = now() + self.whole_ms / 1000
    local call, reply
    call, err, kind = self.flight:enter(weight, until_s)
    if call then
        local answered
        reply, err, kind, answered = send(self, script, n, count, words, until_s)
        if kind == "timeout" and self.flight:lives(call) then
            kind = "queue"
        end
        self.flight:leave(call, answered)
    end
    if self.breaker then
        by_clients = self.breaker:learn(failures, err, kind, CLIENT_CAUSED[kind])
    end
    return reply, err, kind, by_clients
end

--- get returns the text of a key, false when there is none, or nil, the error's text and kind.
function _M:get(key)
    local connection, err, kind = open(self)
    if not connection then return nil, err, kind end
    local text
    text, err, kind = connection:ask(2, word("get") .. word(key))
    if text then text, err, kind = connection:text_or_false() end
    if text == nil then
        connection:close()
        return nil, err, kind
    end
    connection:keep()
    return text
end

--- set writes the text of a key, for so many seconds. It returns true, or nil, the error's text and kind.
function _M:set(key, text, seconds)
    local connection, err, kind = open(self)
    if not connection then return nil, err, kind end
    local done
    done, err, kind = order(connection, 5, word("set") .. word(key) .. word(text) .. word("ex")
        .. word(format("%d", seconds)))
    if not done then
        connection:close()
        return nil, err, kind
    end
    connection:keep()
    return true
end

-- The arguments of a check without its cost, as texts: four for take. As words of a command they are in
-- four, and in own the three for the script of its algorithm. A rate keeps them.
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
    words.four = word(words[1]) .. word(words[2]) .. word(words[3]) .. word(c)
    words.own = word(format("%d", rate.limit)) .. word(format("%d", rate.window_us)) .. word(third)
    words_of[rate] = words
    return words
end

local function cost_word(cost)
    return cost == 1 and ONE or word(format("%d", cost))
end

-- The result in the four numbers of a reply that begin at `at`.
local function row(reply, at)
    return {
        allowed = reply[at] == 1, remaining = reply[at + 1], wait_us = reply[at + 2],
        reset_us = reply[at + 3],
    }
end

-- The weight of a check in Redis: a log has a member for each unit of cost.
local function weight_of(check)
    return check.limit.algorithm == "sliding_window" and 1 + check.cost or 1
end

--- Whether Redis answers in time, this or meanwhile a request, with an error too; if not, the error's text.
function _M:ping()
    local answered = self.flight.answered
    local text, err, kind = self:get("authz")
    return text ~= nil or kind ~= "timeout" and kind ~= "network" and kind ~= "pool" and kind ~= "noauth"
        or self.flight.answered > answered, err
end

--- take_one is take for one check, by the script of its algorithm: it does the same in two thirds of the
-- time. It returns the result, or nil, the error's text and kind.
function _M:take_one(now_us, check, peek)
    local count = 6 -- what a script is quickest at
    local words = ONE .. word(check.key) .. (check.own or _M.words(check.limit, check.rate).own)
        .. cost_word(check.cost)
    if peek or now_us and now_us > 0 then
        count, words = 8, words .. word(format("%d", now_us or 0)) .. (peek and ONE or ZERO)
    end
    local reply, err, kind, by_clients = self:call(check.limit.algorithm, 4, count, words, weight_of(check))
    if not reply then return nil, err, kind, by_clients end
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
        local result, err, kind, by_clients = self:take_one(now_us, checks[1], peek)
        if not result then return nil, err, kind, by_clients end
        return {result}
    end
    local words = {word(format("%d", n))}
    for i = 1, n do words[i + 1] = word(checks[i].key) end
    words[n + 2] = word(format("%d", now_us or 0))
    words[n + 3] = word(format("%d", peek and -n or n))
    local to, weight = n + 3, 0
    for i = 1, n do
        local check = checks[i]
        weight = weight + weight_of(check)
        words[to + 1], words[to + 2] = _M.words(check.limit, check.rate).four, cost_word(check.cost)
        to = to + 2
    end
    local reply, err, kind, by_clients = self:call("take", 1 + 4 * n, 3 + 6 * n, concat(words), weight)
    if not reply then return nil, err, kind, by_clients end
    return read_reply(reply, checks)
end

return _M
