--- A connection to Redis for one call, and Redis's protocol on it: commands of words, and to each the one
-- reply that is expected.
--
-- Nothing waits longer than what is left of the call, however a reply is cut. A reply that is longer than the
-- one expected is malformed as soon as it says so: nothing is made, or awaited, because it was announced.

local kind_of = require "resty.authz.kind"
local now = require("resty.authz.nginx").now

local floor, min = math.floor, math.min
local byte, find, format, gsub, sub = string.byte, string.find, string.format, string.gsub, string.sub
local setmetatable, tonumber = setmetatable, tonumber
local tcp = ngx.socket.tcp

local _M = {}
_M.__index = _M

-- No line or text that we wait for is longer, and no error of Redis's.
local LONGEST = 4096

--- A word of a command, as it is sent.
function _M.word(text)
    local sent = "$" .. #text .. "\r\n" .. text .. "\r\n"
    return sent
end

-- Lets the next wait last until then, and no longer. False: it is past.
local function allow(self, until_s)
    local left_ms = floor((until_s - now()) * 1000 + 0.5)
    if left_ms < 1 then return false end
    if left_ms ~= self.allowed_ms then
        self.socket:settimeout(left_ms)
        self.allowed_ms = left_ms
    end
    return true
end

-- When a step ends that begins now and may take ms.
local function step_end(self, ms)
    local end_s = min(self.until_s, now() + ms / 1000)
    return end_s -- no tail call into min, for the reason that nginx.lua gives
end

-- Speaks TLS from here on: true, or nil, the error's text and kind.
local function handshake(self)
    local to = self.to
    local done, err
    if allow(self, step_end(self, to.connect_ms)) then
        done, err = self.socket:sslhandshake(false, to.tls_name, to.tls_verify)
    else
        err = "timeout"
    end
    if done then return true end
    self.socket:close() -- a handshake that failed leaves it open
    return nil, "failed to do ssl handshake: " .. err, err == "timeout" and "timeout" or "network"
end

--- open connects to a Redis, for a call that begins now and has until until_s, or whole_ms. `to` has host, port
-- (none: host is a socket),
-- connect_options, tls, tls_name, tls_verify, pool_size, and in milliseconds whole_ms for the call,
-- connect_ms, send_ms, read_ms for its steps, and idle_ms for the pool. It returns the connection, or nil,
-- the error's text and kind.
function _M.open(to, until_s)
    local socket = tcp()
    local self = setmetatable({
        socket = socket, to = to, until_s = until_s or now() + to.whole_ms / 1000, allowed_ms = 0, reply_until_s = 0,
        text = "", at = 1,
    }, _M)
    allow(self, step_end(self, to.connect_ms))
    local connected, err
    if to.port then
        connected, err = socket:connect(to.host, to.port, to.connect_options)
    else
        connected, err = socket:connect(to.host, to.connect_options)
    end
    if not connected then return nil, err, kind_of.connecting(err) end
    if to.tls and self:is_new() then
        local kind
        connected, err, kind = handshake(self)
        if not connected then return nil, err, kind end
    end
    return self
end

--- Whether nobody has used it before.
function _M:is_new()
    return self.socket:getreusedtimes() == 0
end

--- ask sends a command of so many words, whose text is each of them as word() writes it. It returns true, or
-- nil, the error's text and kind.
function _M:ask(count, words)
    self.answered = false
    if self.at <= #self.text then return nil, "Redis sent more than a reply", "malformed" end
    if not allow(self, step_end(self, self.to.send_ms)) then return nil, "timeout", "timeout" end
    local sent, err = self.socket:send("*" .. count .. "\r\n" .. words)
    if not sent then return nil, err, kind_of.connection(err) end
    self.reply_until_s = step_end(self, self.to.read_ms)
    return true
end

-- Waits for more of the reply.
local function receive(self)
    if not allow(self, self.reply_until_s) then return nil, "timeout", "timeout" end
    local more, err = self.socket:receiveany(LONGEST)
    if not more then return nil, err, kind_of.connection(err) end
    self.text = self.at <= #self.text and sub(self.text, self.at) .. more or more
    self.at = 1
    return true
end

-- The next line of the reply, without its end.
local function line(self)
    local stop = find(self.text, "\r\n", self.at, true)
    while not stop do
        if #self.text - self.at >= LONGEST then return nil, "Redis sent a line without end", "malformed" end
        local more, err, kind = receive(self)
        if not more then return nil, err, kind end
        stop = find(self.text, "\r\n", self.at, true)
    end
    local text = sub(self.text, self.at, stop - 1)
    self.at = stop + 2
    return text
end

-- The whole number after the first byte of a line, as Redis writes it; nil when there is none.
local function number(text)
    local digits = sub(text, 2)
    local n = tonumber(digits)
    return n and format("%d", n) == digits and n or nil
end

-- An error of Redis without what it, or a proxy before it, quotes of a command that it does not know: the
-- password may be among that.
local function without_arguments(err)
    local at = find(err, ", with args beginning with", 1, true)
    return at and sub(err, 1, at - 1) or err
end

-- What a line is that is not the one expected: nil, an error's text and its kind. An error of Redis is a whole answer.
local function unexpected(self, text, want)
    if byte(text) == 45 then -- a "-" begins an error of Redis
        self.answered = true
        local err = without_arguments(sub(text, 2))
        return nil, err, kind_of.reply(err)
    end
    return nil, "Redis sent no " .. want, "malformed"
end

-- What is said of a line that no script writes. Its first words are enough, and all that a log can show.
local function of_script(text, want)
    local begins = gsub(sub(text, 1, 32), "[^\32-\126]", "?")
    return format('reply of our script: "%s", want %s', begins, want)
end

--- numbers reads a list of n whole numbers. As the others that read, it returns nil, the error's text and
-- kind when something else comes.
function _M:numbers(n)
    local text, err, kind = line(self)
    if not text then
        return nil, err, kind
    elseif text ~= "*" .. n then
        return unexpected(self, text, of_script(text, n .. " numbers"))
    end
    local list = {}
    for i = 1, n do
        text, err, kind = line(self)
        if not text then return nil, err, kind end
        local value = byte(text) == 58 and number(text) -- a ":" begins one
        if not value then return nil, "Redis sent no " .. of_script(text, "a number"), "malformed" end
        list[i] = value
    end
    return list
end

--- ok reads that a command was obeyed.
function _M:ok()
    local text, err, kind = line(self)
    if text == "+OK" or not text then return text, err, kind end
    return unexpected(self, text, "OK")
end

--- text_or_false reads a text; false: there is none.
function _M:text_or_false()
    local text, err, kind = line(self)
    if not text then return nil, err, kind end
    if text == "$-1" then return false end
    local length = byte(text) == 36 and number(text) -- a "$" begins a text
    if not length or length < 0 or length > LONGEST then
        return unexpected(self, text, "text of at most " .. LONGEST .. " bytes")
    end
    while #self.text - self.at + 1 < length + 2 do
        local more
        more, err, kind = receive(self)
        if not more then return nil, err, kind end
    end
    text = sub(self.text, self.at, self.at + length - 1)
    if sub(self.text, self.at + length, self.at + length + 1) ~= "\r\n" then
        return nil, "Redis sent no end of a text", "malformed"
    end
    self.at = self.at + length + 2
    return text
end

--- keep gives it back to the pool, if Redis has said no more than it was asked for.
function _M:keep()
    if self.at <= #self.text or not self.socket:setkeepalive(self.to.idle_ms, self.to.pool_size) then
        self.socket:close()
    end
end

--- close is for after an error: what this Redis says next may be the answer to who has given up.
function _M:close()
    self.socket:close()
end

return _M
