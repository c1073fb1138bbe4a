--- Whose bucket a request charges, and how much. limits/key.go and limits/override.go say the same
-- in Go.

local byte, find, format, sub = string.byte, string.find, string.format, string.sub
local concat = table.concat
local ip = require "resty.authz.ip"
local memo = require "resty.authz.memo"
local pattern = require "resty.authz.pattern"
local sha256 = require "resty.authz.sha256"
local slots = require "resty.authz.slot"
local value_of = slots.value

local _M = {}

local LONGEST_VALUE = 64 -- bytes, before escaping; a longer one is written as its digest
local LONGEST_IDENTITY = 160 -- bytes; a longer one is written as its digest
local DIGEST_BYTES = 16

-- What ends a Redis key.
local CODES = {
    token_bucket = "tb", leaky_bucket = "lb",
    fixed_window = "fw", sliding_window = "sw", sliding_counter = "sc",
}

-- What a byte is written as: itself, or percent-escaped.
local escaped = {}
for i = 0, 255 do
    local c = string.char(i)
    escaped[i] = find(c, "[A-Za-z0-9._~:/@+=-]") and c or format("%%%02X", i)
end

local function escape(text)
    local from = 1
    while from <= #text and #escaped[byte(text, from)] == 1 do
        from = from + 1
    end
    if from > #text then
        return text
    end
    local out = {sub(text, 1, from - 1)}
    for i = from, #text do
        out[i - from + 2] = escaped[byte(text, i)]
    end
    return concat(out)
end

-- "*", which is escaped everywhere else, and 32 hex digits.
local function digest(text)
    return "*" .. sha256(text, DIGEST_BYTES)
end

local SLOTS = {host = slots.HOST, method = slots.METHOD, zone = slots.ZONE, ["path:raw"] = slots.PATH}

-- The text of the part ip, of a client's address.
local function ip_text(policy, head)
    local v4, v6 = policy.defaults.ipv4_prefix, policy.defaults.ipv6_prefix
    return memo.of(function(address)
        return head .. ip.prefix_text(address, #address == 4 and v4 or v6)
    end)
end

-- The parts that several limits have are made once in a request: known has them, by head.
local function compile_part(policy, sp, fields, known)
    local part = known[sp.head]
    if part and sp.kind ~= "path" then -- whose texts are the limit's own
        return part
    end
    part = {kind = sp.kind, head = sp.head, secret = sp.secret, slot = SLOTS[sp.kind]}
    if sp.kind == "ip" then
        part.text_of = ip_text(policy, sp.head)
    elseif sp.kind == "path" then
        part.texts = {}
        for i, text in ipairs(sp.texts) do
            part.texts[i] = sp.head .. text
        end
    elseif sp.name then
        part.slot = slots.of(fields, sp.kind, sp.name)
    end
    known[sp.head] = part
    return part
end

-- The lengths of prefixes to try, by the bytes of an address; nil: no part of the key is ip. A family
-- without any may be null.
local function override_lengths(prefixes)
    local function list(lengths)
        return type(lengths) == "table" and lengths or {}
    end
    return prefixes and {[4] = list(prefixes.ipv4), [16] = list(prefixes.ipv6)}
end

--- Compiles how a limit is keyed. parts is those that earlier limits have.
function _M.compile(policy, limit, paths, fields, parts)
    local tag = #limit.key == 0 and limit.name or ""
    local key = {
        missing = limit.missing, paths = paths,
        cost = limit.cost, cost_max = limit.cost_max,
        cost_slot = limit.cost_header and slots.of(fields, "header", limit.cost_header),
        head = policy.key_prefix .. ":v1:{" .. tag,
        tail = "}:" .. limit.name .. ":" .. CODES[limit.algorithm],
        overrides = limit.overrides, lengths = override_lengths(limit.override_prefixes),
    }
    for i, sp in ipairs(limit.key) do
        key[i] = compile_part(policy, sp, fields, parts)
    end
    if limit.missing == "ip" then
        key.ip_part = compile_part(policy, {kind = "ip", head = "ip="}, fields, parts)
    end
    return key
end

local function lacks(q, part)
    local slot = part.slot
    return slot and not value_of(q, slot)
end

--- Whether a part of the key is missing.
function _M.lacks_part(q, key)
    for i = 1, #key do
        if lacks(q, key[i]) then
            return true
        end
    end
    return false
end

local function part_text(q, key, part)
    local text = q.parts[part]
    if text then
        return text
    end
    if part.kind == "ip" then
        text = q.address and part.text_of(q.address) or part.head .. "unknown"
    elseif part.kind == "path" then
        local place = pattern.first(key.paths, q.values[slots.PATH], slots.pieces(q, slots.PATH))
        text = part.texts[place]
    else
        local value = value_of(q, part.slot) or ""
        if value ~= "" and (part.secret or #value > LONGEST_VALUE) then
            text = part.head .. digest(value)
        else
            text = part.head .. escape(value)
        end
    end
    q.parts[part] = text
    return text
end

-- Joins the parts; own_ip, if given, stands for the parts that are ip by themselves.
local function identity_of(q, key, own_ip)
    local identity = ""
    for i = 1, #key do
        local part = key[i]
        local text
        if own_ip and part.kind == "ip" then
            text = own_ip
        elseif key.ip_part and lacks(q, part) then
            text = part_text(q, key, key.ip_part)
        else
            text = part_text(q, key, part)
        end
        identity = i == 1 and text or identity .. "|" .. text
    end
    return identity
end

local function override_of(q, key, identity)
    local address = q.address
    if not key.lengths then
        return key.overrides[identity]
    end
    local lengths = address and key.lengths[#address]
    for i = 1, lengths and #lengths or 0 do
        local own_ip = "ip=" .. ip.prefix_text(address, lengths[i])
        local rate = key.overrides[identity_of(q, key, own_ip)]
        if rate then
            return rate
        end
    end
    return nil
end

--- The Redis key of a request, and the rate of an override if the key has one.
function _M.of(q, key)
    local identity = identity_of(q, key)
    local rate = key.overrides and override_of(q, key, identity)
    if #identity > LONGEST_IDENTITY then
        identity = digest(identity)
    end
    return key.head .. identity .. key.tail, rate
end

--- What a request costs: a plain whole number from the header; anything else costs the most.
function _M.cost_of(q, key)
    if not key.cost_slot then
        return key.cost
    end
    local value = value_of(q, key.cost_slot)
    if not value or #value > 16 or byte(value, 1) == 48 then
        return key.cost_max
    end
    local cost = 0
    for i = 1, #value do
        local digit = byte(value, i) - 48
        if digit < 0 or digit > 9 then
            return key.cost_max
        end
        cost = cost * 10 + digit
    end
    return cost < key.cost_max and cost or key.cost_max
end

return _M
