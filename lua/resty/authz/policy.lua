--- The limits file of this nginx: the JSON that `authz compile` wrote. Every worker looks once a second
-- whether there is a newer one, by a timer, and takes it whole or not at all.

local file = require "resty.authz.file"
local json = require "resty.authz.json"
local match = require "resty.authz.match"
local now_s = require("resty.authz.nginx").now
local schema = require "resty.authz.schema"
local sha256 = require "resty.authz.sha256"

local abs = math.abs

local _M = {}
_M.__index = _M

local POLL_S = 1
local AGAIN_S = 60 -- until what could not be used is tried again, unless it changes before

-- {"version":"SHA-256 of what follows"
local HEAD_BYTES = 77

local function compile(text, pause)
    local set = json.decode(text, pause)
    schema.check(set, pause)
    return match.compile(set, pause)
end

-- The set in a text, or nil and what is wrong with it.
local function read_set(text, pause)
    local version = text:match('^{"version":"(' .. ("%x"):rep(64) .. ')"')
    if not version then
        return nil, "begins with " .. text:sub(1, 20) .. ', want {"version":"...", as authz compile writes it'
    end
    local sum = sha256(text, 32, HEAD_BYTES + 1, pause)
    if sum ~= version then
        return nil, "is cut short or changed: SHA-256 " .. sum .. ", want the version, " .. version
    end
    local ok, set = pcall(compile, text, pause)
    if not ok then
        return nil, "is from another release of authz: " .. tostring(set)
    end
    return set
end

-- Files of one sign are taken for the same: as long, and of one version.
local function sign_of(head, size)
    return head .. " " .. size
end

-- Reads the file: the set and its sign, or nil, nil and what is wrong.
local function load_file(path, pause, problem_of)
    local text, err = file.read(path, nil, pause)
    if not text then
        return nil, nil, err
    end
    local set
    set, err = read_set(text, pause)
    err = err or problem_of(set)
    if err then
        return nil, nil, path .. ": " .. err:gsub("%c", " ") -- or it would break the log's lines
    end
    return set, sign_of(text:sub(1, HEAD_BYTES), #text)
end

local function nothing() end

--- Reads a policy; returns nil and what is wrong if it cannot be used. A path that does not begin with
-- "/" is below nginx's prefix, as those in nginx.conf are.
function _M.new(path)
    if path:sub(1, 1) ~= "/" then
        path = ngx.config.prefix() .. path
    end
    local set, sign, err = load_file(path, nothing, nothing)
    if not set then
        return nil, err
    end
    return setmetatable({
        path = path, set = set, sign = sign, polled_s = now_s(), loaded_s = now_s(), loading = false,
        watched = false, problem_of = nothing, on_load = nothing,
    }, _M)
end

--- A newer set is refused when problem_of(set) says what is wrong with it; nil: nothing.
function _M.refuse(policy, problem_of)
    policy.problem_of = problem_of
end

--- f(set) is called after each newer set that this worker loads.
function _M.each_load(policy, f)
    policy.on_load = f
end

-- Notes that a newer file cannot be used, which changes nothing; nil: none is. It is logged when it is
-- another failure than before.
local function note_failure(policy, err)
    if err and err ~= policy.failure then
        ngx.log(ngx.ERR, "authz: the limits stay as they are: ", err)
    end
    policy.failure = err
end

-- Lets nginx do what it has to, for a millisecond, whenever its clock has moved by one. (No time at all
-- would not do: nginx runs a timer that is due before it looks at its sockets.)
local function new_pause()
    local since_s = now_s()
    return function()
        ngx.update_time()
        if now_s() ~= since_s then
            ngx.sleep(0.001)
            since_s = now_s()
        end
    end
end

-- Reads a newer file, of this sign, and compiles it, by turns with the requests, which have the older set
-- until this one is whole. Whatever happens to it, short memory say, the next file has its turn.
local function load_newer(premature, policy, sign)
    if premature then
        return
    end
    if not policy.failure then
        ngx.log(ngx.NOTICE, "authz: reading newer limits")
    end
    local ran, set, new_sign, err = pcall(load_file, policy.path, new_pause(), policy.problem_of)
    policy.loading = false
    if not ran then
        set, err = nil, policy.path .. ": " .. tostring(set)
    end
    note_failure(policy, err)
    if set then
        policy.set, policy.sign, policy.loaded_s = set, new_sign, now_s()
        policy.on_load(set)
        ngx.log(ngx.NOTICE, "authz: new limits, version ", set.version)
    else
        policy.refused, policy.refused_s = sign, now_s()
    end
end

-- Whether a file of this sign was refused lately. It would be read and refused every second otherwise.
local function refused_lately(policy, sign)
    return sign == policy.refused and abs(now_s() - policy.refused_s) < AGAIN_S
end

-- The sign of a newer file, nil if there is none.
local function newer_sign(policy)
    policy.polled_s = now_s()
    local head, size = file.read(policy.path, HEAD_BYTES)
    local sign = head and sign_of(head, size)
    if not head or sign == policy.sign then
        policy.refused = nil
        note_failure(policy, not head and size or nil)
        return nil
    end
    return not policy.loading and not refused_lately(policy, sign) and sign or nil
end

-- Looks whether there is a newer file, and has a timer load it.
local function poll(policy)
    local sign = newer_sign(policy)
    if sign then
        local err
        policy.loading, err = ngx.timer.at(0, load_newer, policy, sign)
        if err then
            note_failure(policy, err)
        end
    end
end

local function poll_by_timer(premature, policy)
    if not premature then
        poll(policy)
    end
end

--- Polls the file from now on, by a timer of this worker.
function _M.watch(policy)
    if not policy.watched then
        local err
        policy.watched, err = ngx.timer.every(POLL_S, poll_by_timer, policy)
        if err then
            ngx.log(ngx.ERR, "authz: no timer polls the limits (", err, "): requests do")
        end
    end
end

--- Loads a newer file now, in a phase that can wait.
function _M.catch_up(policy)
    local sign = newer_sign(policy)
    if sign then
        policy.loading = true
        load_newer(false, policy, sign)
    end
end

--- The newest set that is whole. Where no timer polls the file, requests do.
function _M.current(policy)
    local now = now_s()
    if not policy.watched and (now >= policy.polled_s + POLL_S or now < policy.polled_s) then
        poll(policy)
    end
    return policy.set
end

return _M
