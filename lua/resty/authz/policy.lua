--- The limits file of this nginx: the JSON that `authz compile` wrote. Every worker looks once a second
-- whether there is a newer one, and takes it whole or not at all.

local cjson = require "cjson"
local json = require "resty.authz.json"
local match = require "resty.authz.match"
local now_s = require("resty.authz.nginx").now
local sha256 = require "resty.authz.sha256"

local abs = math.abs

local _M = {}
_M.__index = _M

local POLL_S = 1
local AGAIN_S = 60 -- until what could not be used is tried again, unless it changes before
local PIECE = 65536 -- bytes

-- {"version":"SHA-256 of what follows"
local HEAD_BYTES = 77

local function words(text)
    local set = {}
    for word in text:gmatch("%S+") do
        set[word] = true
    end
    return set
end

-- What may stand where in the JSON. What was written for another release of the pack, which this one
-- would understand in part, is refused.
local SET = words "version key_prefix defaults deny allow limits"
local SET_AND_ZONES = words "version key_prefix defaults deny allow limits zones"
local RULE = words "name match unless"
local LIMIT = words [[name match unless key missing cost cost_header cost_max algorithm rate
    schedules shadow on_error overrides override_prefixes]]
local SCHEDULE = words "name rate from_us until_us week zone"
local ZONE = words "offset_us changes"
local CONDITION = words "path host method zone ip header query cookie"
local PART = words "kind name head secret texts"
local RATE = words "unlimited limit window_us offset_us burst initial n w capacity share"

-- The words that stand for something.
local VALUES = {
    algorithm = words "token_bucket leaky_bucket fixed_window sliding_window sliding_counter",
    missing = words "skip deny share ip", on_error = words "allow local deny",
}
local KINDS = words "ip host method path path:raw zone header query cookie"

local function only(known, t, where)
    for name in pairs(t or {}) do
        if not known[name] then
            error("unknown " .. tostring(name) .. " in " .. where, 0)
        end
    end
end

local function check_rule(rule, known, where)
    where = where .. rule.name
    only(known, rule, where)
    only(CONDITION, rule.match, where)
    only(CONDITION, rule.unless, where)
    return where
end

local function check_rate(rate, where)
    only(RATE, rate, where)
    if rate.share then
        only(RATE, rate.share, where)
    end
end

local function check_schedule(schedule, zones, where)
    where = "schedule." .. where .. "." .. schedule.name
    only(SCHEDULE, schedule, where)
    check_rate(schedule.rate, where)
    local zone = schedule.zone
    if zone and not (zones and zones[zone]) then
        error("no zone " .. tostring(zone) .. " in the set, for " .. where, 0)
    end
    only(ZONE, zone and zones[zone], where)
end

local function check_limit(limit, zones, pause)
    local where = check_rule(limit, LIMIT, "limit.")
    for name, values in pairs(VALUES) do
        local value = limit[name]
        if not values[value or ""] and (value ~= nil or name ~= "missing") then
            error("unknown " .. name .. " " .. tostring(value) .. " in " .. where, 0)
        end
    end
    for _, part in ipairs(limit.key) do
        only(PART, part, where)
        if not KINDS[part.kind] then
            error("unknown kind of key part " .. tostring(part.kind) .. " in " .. where, 0)
        end
    end
    check_rate(limit.rate, where)
    for _, schedule in ipairs(limit.schedules or {}) do
        check_schedule(schedule, zones, limit.name)
    end
    for _, rate in pairs(limit.overrides or {}) do
        check_rate(rate, where)
        pause()
    end
end

local function check_set(set, pause)
    only(SET_AND_ZONES, set, "the set")
    for name in pairs(SET) do
        if not set[name] or set[name] == cjson.null then
            error("no " .. name .. " in the set", 0)
        end
    end
    for _, rule in ipairs(set.deny) do
        check_rule(rule, RULE, "deny.")
    end
    for _, rule in ipairs(set.allow) do
        check_rule(rule, RULE, "allow.")
    end
    for _, limit in ipairs(set.limits) do
        check_limit(limit, set.zones, pause)
    end
end

local function compile(text, pause)
    local set = json.decode(text, pause)
    check_set(set, pause)
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

-- The head of a file, and its size; or nil and what is wrong.
local function read_head(path)
    local file, err = io.open(path, "rb")
    if not file then
        return nil, err
    end
    file:setvbuf("no") -- the head costs the head alone
    local head = file:read(HEAD_BYTES) or ""
    local size = file:seek("end")
    file:close()
    return head, size
end

-- All of a file, or nil and what is wrong.
local function read_all(path, pause)
    local file, err = io.open(path, "rb")
    if not file then
        return nil, err
    end
    local pieces = {}
    for piece in function() return file:read(PIECE) end do
        pieces[#pieces + 1] = piece
        pause()
    end
    file:close()
    return table.concat(pieces)
end

-- Reads the file: the set and its head, or nil, nil and what is wrong.
local function load_file(path, pause, problem_of)
    local text, err = read_all(path, pause)
    if not text then
        return nil, nil, err
    end
    local set
    set, err = read_set(text, pause)
    err = err or problem_of(set)
    if err then
        return nil, nil, path .. ": " .. err:gsub("%c", " ") -- the file's own text would break the log's lines
    end
    return set, text:sub(1, HEAD_BYTES)
end

local function nothing() end

--- Reads a policy; returns nil and what is wrong if it cannot be used. A path that does not begin with
-- "/" is below nginx's prefix, as those in nginx.conf are.
function _M.new(path)
    if path:sub(1, 1) ~= "/" then
        path = ngx.config.prefix() .. path
    end
    local set, head, err = load_file(path, nothing, nothing)
    if not set then
        return nil, err
    end
    return setmetatable({
        path = path, set = set, head = head, polled_s = now_s(), loaded_s = now_s(), loading = false,
        problem_of = nothing,
    }, _M)
end

--- A newer set is refused when problem_of(set) says what is wrong with it; nil: nothing.
function _M.refuse(policy, problem_of)
    policy.problem_of = problem_of
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
    local ran, set, head, err = pcall(load_file, policy.path, new_pause(), policy.problem_of)
    policy.loading = false
    if not ran then
        set, err = nil, policy.path .. ": " .. tostring(set)
    end
    note_failure(policy, err)
    if set then
        policy.set, policy.head, policy.loaded_s = set, head, now_s()
        ngx.log(ngx.NOTICE, "authz: new limits, version ", set.version)
    else
        policy.refused, policy.refused_s = sign, now_s()
    end
end

-- Whether a file of this sign was refused lately. It would be read and refused every second otherwise.
local function refused_lately(policy, sign)
    return sign == policy.refused and abs(now_s() - policy.refused_s) < AGAIN_S
end

-- Looks whether there is a newer file.
local function poll(policy)
    local head, size = read_head(policy.path)
    if not head or head == policy.head then
        policy.refused = nil
        note_failure(policy, not head and size or nil)
        return
    end
    local sign = head .. size
    if not policy.loading and not refused_lately(policy, sign) then
        local err
        policy.loading, err = ngx.timer.at(0, load_newer, policy, sign)
        if err then
            note_failure(policy, err)
        end
    end
end

--- The newest set that is whole.
function _M.current(policy)
    local now = now_s()
    if now >= policy.polled_s + POLL_S or now < policy.polled_s then
        policy.polled_s = now
        poll(policy)
    end
    return policy.set
end

return _M
