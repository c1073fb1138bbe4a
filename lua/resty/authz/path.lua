--- What nginx makes of a request target: its $uri and its $args. limits/path.go says the same in Go.

local byte, char, find, sub = string.byte, string.char, string.find, string.sub
local concat = table.concat
local new_table = require "table.new"

local _M = {}

local SHARP, PERCENT, DOT, SLASH, QUESTION, SPACE, TAB = byte("#%./? \t", 1, 7)

-- The value of a hex digit, by its byte.
local hex = {}
_M.hex = hex
for i = 0, 15 do
    hex[byte("0123456789abcdef", i + 1)] = i
    hex[byte("0123456789ABCDEF", i + 1)] = i
end

--- The byte that two hex digits at `at` stand for, nil if there are none.
function _M.unhex(text, at)
    local high, low = hex[byte(text, at)], hex[byte(text, at + 1)]
    return high and low and high * 16 + low
end
local unhex = _M.unhex

--- Percent-decodes once; nil for "%00" and for "%" without two hex digits.
function _M.decode(text)
    local at = find(text, "%", 1, true)
    if not at then
        return text
    end
    local out, n, from = {}, 0, 1
    while at do
        local c = unhex(text, at + 1)
        if not c or c == 0 then
            return nil
        end
        out[n + 1] = sub(text, from, at - 1)
        out[n + 2] = char(c)
        n, from = n + 2, at + 3
        at = find(text, "%", from, true)
    end
    out[n + 1] = sub(text, from)
    return concat(out)
end

--- What stands from `from` to `last`, without the blanks around it.
function _M.trim(text, from, last)
    while from <= last and (byte(text, from) == SPACE or byte(text, from) == TAB) do
        from = from + 1
    end
    while last >= from and (byte(text, last) == SPACE or byte(text, last) == TAB) do
        last = last - 1
    end
    return sub(text, from, last)
end

--- Cuts text from `from` on at each sep.
function _M.split(text, sep, from)
    local pieces, n = new_table(8, 0), 0
    local cut = find(text, sep, from, true)
    while cut do
        n = n + 1
        pieces[n] = sub(text, from, cut - 1)
        from = cut + 1
        cut = find(text, sep, from, true)
    end
    pieces[n + 1] = sub(text, from)
    return pieces
end

-- Where the path ends, and whether it stands there as nginx would write it; nil for bytes that no
-- request line may have.
local function scan(target)
    local last, plain, before = nil, true, 0
    for i = 1, #target do
        local c = byte(target, i)
        if c <= 0x20 or c == 0x7f then
            return nil
        end
        if not last then
            if c == QUESTION or c == SHARP then
                last = i - 1
            elseif c == PERCENT or before == SLASH and (c == SLASH or c == DOT) then
                plain = false
            end
            before = c
        end
    end
    return last or #target, plain
end

-- Merges slashes and resolves dot segments; nil for ".." above the root.
local function resolve(decoded)
    local segments, depth = {}, 0
    local pieces = _M.split(decoded, "/", 1)
    for i = 1, #pieces do
        local s = pieces[i]
        if s == ".." then
            if depth == 0 then
                return nil
            end
            depth = depth - 1
        elseif s ~= "" and s ~= "." then
            depth = depth + 1
            segments[depth] = s
        end
    end
    return "/" .. concat(segments, "/", 1, depth)
end

--- Splits a request target, as $request_uri has it, into path (without a trailing slash) and query
-- ("" if there is none). nil: nginx answers 400.
function _M.target(target)
    local first = byte(target, 1)
    local last, plain = scan(target)
    if not last or first ~= SLASH and first ~= QUESTION then
        return nil
    end
    local normal
    if last == 0 then
        normal = "/"
    elseif plain then
        normal = sub(target, 1, last > 1 and byte(target, last) == SLASH and last - 1 or last)
    else
        normal = _M.decode(sub(target, 1, last))
        normal = normal and resolve(normal)
        if not normal then
            return nil
        end
    end
    if byte(target, last + 1) ~= QUESTION then
        return normal, ""
    end
    local stop = find(target, "#", last + 2, true)
    return normal, sub(target, last + 2, stop and stop - 1)
end

return _M
