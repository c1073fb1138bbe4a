--- Addresses, as strings of 4 or 16 bytes: LuaJIT's numbers have no 64 bits. limits/ip.go and
-- limits/prefix.go say the same in Go.

local bit = require "bit"
local band, lshift, rshift = bit.band, bit.lshift, bit.rshift
local byte, char, find, format, sub = string.byte, string.char, string.find, string.format, string.sub
local concat = table.concat
local path = require "resty.authz.path"
local hex = path.hex

local _M = {}

local ZERO, NINE, DOT, COLON, BRACKET = byte("09.:[", 1, 5)

-- Four numbers of at most three digits, none with a zero before it.
local function parse_v4(text)
    local address, numbers, value, digits = 0, 0, 0, 0
    for i = 1, #text + 1 do
        local c = byte(text, i) or DOT
        if c >= ZERO and c <= NINE then
            value = value * 10 + c - ZERO
            digits = digits + 1
            if value > 255 or digits > 1 and value < 10 then
                return nil
            end
        elseif c == DOT and digits > 0 and numbers < 4 then
            address, numbers, value, digits = address * 256 + value, numbers + 1, 0, 0
        else
            return nil
        end
    end
    if numbers ~= 4 then
        return nil
    end
    return char(rshift(address, 24), band(rshift(address, 16), 255), band(rshift(address, 8), 255),
        band(address, 255))
end

-- The bytes of one to four hex digits.
local function parse_group(text)
    local value = 0
    for i = 1, #text do
        local digit = hex[byte(text, i)]
        if not digit or i > 4 then
            return nil
        end
        value = value * 16 + digit
    end
    return text ~= "" and char(rshift(value, 8), band(value, 255)) or nil
end

-- The bytes of groups of hex digits; the last may be an IPv4 address. "" for an empty text.
local function parse_groups(text, may_end_in_v4)
    local bytes, from = "", 1
    while from <= #text do
        local colon = find(text, ":", from, true)
        local group = sub(text, from, colon and colon - 1)
        local more = parse_group(group) or not colon and may_end_in_v4 and parse_v4(group)
        if not more or colon == #text then
            return nil
        end
        bytes = bytes .. more
        from = colon and colon + 1 or #text + 1
    end
    return bytes
end

local function parse_v6(text)
    local gap = find(text, "::", 1, true)
    if not gap then
        local bytes = parse_groups(text, true)
        return bytes and #bytes == 16 and bytes or nil
    end
    local head, tail = parse_groups(sub(text, 1, gap - 1), false), parse_groups(sub(text, gap + 2), true)
    if not head or not tail or #head + #tail > 14 then
        return nil
    end
    return head .. ("\0"):rep(16 - #head - #tail) .. tail
end

local MAPPED = ("\0"):rep(10) .. "\255\255"

-- "" or ":" and one to five digits.
local function is_port_or_nothing(text)
    if text == "" then
        return true
    end
    for i = 2, #text do
        local c = byte(text, i)
        if c < ZERO or c > NINE then
            return false
        end
    end
    return byte(text, 1) == COLON and #text >= 2 and #text <= 6
end

-- Cuts off brackets, port and zone: what is left is an address alone. nil if they are not well formed.
local function bare(text)
    if byte(text, 1) == BRACKET then
        local stop = find(text, "]", 1, true)
        if not stop or not is_port_or_nothing(sub(text, stop + 1)) then
            return nil
        end
        text = sub(text, 2, stop - 1)
        if not find(text, ":", 1, true) then
            return nil
        end
    else
        local colon = find(text, ":", 1, true)
        if colon and not find(text, ":", colon + 1, true) then
            if not is_port_or_nothing(sub(text, colon)) then
                return nil
            end
            text = sub(text, 1, colon - 1)
        end
    end
    local zone = find(text, "%", 1, true)
    if not zone then
        return text
    end
    if zone == #text or not find(sub(text, 1, zone), ":", 1, true) then
        return nil
    end
    return sub(text, 1, zone - 1)
end

--- Reads an address as proxies write it: 203.0.113.9, 203.0.113.9:52241, 2001:db8::1, [2001:db8::1] or
-- [2001:db8::1]:443. ::ffff:a.b.c.d is a.b.c.d, a zone id (%eth0) is dropped. nil: it is none.
function _M.parse(text)
    local address = parse_v4(text)
    if address then
        return address
    end
    text = bare(path.trim(text, 1, #text))
    if not text or #text > 45 then
        return nil
    end
    if not find(text, ":", 1, true) then
        return parse_v4(text)
    end
    address = parse_v6(text)
    if address and sub(address, 1, 12) == MAPPED then
        return sub(address, 13)
    end
    return address
end

--- The bits of an address that make a prefix of it, whole bytes and the rest of one.
function _M.cut(address, length)
    local whole, rest = rshift(length, 3), band(length, 7)
    if rest == 0 then
        return sub(address, 1, whole)
    end
    return sub(address, 1, whole) .. char(band(byte(address, whole + 1), lshift(255, 8 - rest)))
end
local cut = _M.cut

local function v4_text(address)
    local a, b, c, d = byte(address, 1, 4)
    return a .. "." .. b .. "." .. c .. "." .. d
end

-- As RFC 5952 has it: the longest run of at least two zero words is "::", the first of equal ones.
local function v6_text(address)
    local words, best, best_length, run = {}, 0, 1, 0
    for i = 1, 8 do
        local high, low = byte(address, 2 * i - 1, 2 * i)
        words[i] = high * 256 + low
        run = words[i] == 0 and run + 1 or 0
        if run > best_length then
            best, best_length = i - run + 1, run
        end
    end
    local out = {}
    local i = 1
    while i <= 8 do
        if i == best then
            out[#out + 1] = "::"
            i = i + best_length
        else
            if i > 1 and i ~= best + best_length then
                out[#out + 1] = ":"
            end
            out[#out + 1] = format("%x", words[i])
            i = i + 1
        end
    end
    return concat(out)
end

--- Writes the prefix of an address: "10.0.0.0/8", and a single address without its length.
function _M.prefix_text(address, length)
    local bytes = #address
    if length < bytes * 8 then
        address = cut(address, length)
        address = address .. ("\0"):rep(bytes - #address)
    end
    local text = bytes == 4 and v4_text(address) or v6_text(address)
    return length < bytes * 8 and text .. "/" .. length or text
end

--- Things by prefix. An address finds them with a lookup for each length that occurs.
function _M.new_prefixes()
    return {[4] = {lengths = {}, by_length = {}}, [16] = {lengths = {}, by_length = {}}}
end

--- The thing that stands at a prefix ("10.0.0.0/8"): what was put there, or what make() returns now.
function _M.at_prefix(prefixes, prefix, make)
    local slash = find(prefix, "/", 1, true)
    local address, length = _M.parse(sub(prefix, 1, slash - 1)), tonumber(sub(prefix, slash + 1))
    local family = prefixes[#address]
    if not family.by_length[length] then
        family.by_length[length] = {}
        family.lengths[#family.lengths + 1] = length
    end
    local things, key = family.by_length[length], cut(address, length)
    things[key] = things[key] or make()
    return things[key]
end

--- Whether an address is in any of the prefixes. nil, an unknown address, is not.
function _M.contains(prefixes, address)
    local family = prefixes[address and #address]
    if not family then
        return false
    end
    for i = 1, #family.lengths do
        local length = family.lengths[i]
        if family.by_length[length][cut(address, length)] then
            return true
        end
    end
    return false
end

return _M
