--- What the rules ask of a request. Every value that a rule can ask for has a slot: path, host, method
-- and zone, then the headers, cookies and query arguments that the limits file names.
-- limits/slot.go says the same in Go.

local byte, char, find, lower, sub = string.byte, string.char, string.find, string.lower, string.sub
local concat = table.concat
local clear, new_table = require "table.clear", require "table.new"
local path = require "resty.authz.path"
local split, trim, unhex = path.split, path.trim, path.unhex

local _M = {PATH = 1, HOST = 2, METHOD = 3, ZONE = 4}
local PATH, HOST, METHOD, ZONE = _M.PATH, _M.HOST, _M.METHOD, _M.ZONE

local PERCENT, PLUS, BRACKET, DOT, SPACE = byte("%+[. ", 1, 5)

--- No names yet, and how many slots there are.
function _M.new()
    return {
        count = ZONE, names = {}, kinds = {},
        header = {}, cookie = {}, query = {}, -- slots by name
        cookies = {}, queries = {}, -- and in a list
    }
end

--- The slot of a header (in lower case), cookie or query argument.
function _M.of(fields, kind, name)
    local slots = fields[kind]
    if not slots[name] then
        local slot = fields.count + 1
        fields.count, slots[name], fields.names[slot], fields.kinds[slot] = slot, slot, name, kind
        if kind ~= "header" then
            local list = kind == "cookie" and fields.cookies or fields.queries
            list[#list + 1] = slot
        end
    end
    return slots[name]
end

-- An empty value is missing.
local function or_false(value)
    return value ~= nil and value ~= "" and value
end

-- The first of a name counts, even if it is empty, which is as if it was not there.
local function fill(values, slot, value)
    if values[slot] == nil then
        values[slot] = or_false(value)
    end
end

-- Reads "name=value; name=value". Values are raw, without the blanks around them.
local function read_cookies(q)
    local header, slots, values = q.attrs.cookie or "", q.fields.cookie, q.values
    local from = 1
    local equals = find(header, "=", 1, true)
    while equals do
        local stop = find(header, ";", from, true) or #header + 1
        if equals < stop then
            local slot = slots[trim(header, from, equals - 1)]
            if slot then
                fill(values, slot, trim(header, equals + 1, stop - 1))
            end
            equals = find(header, "=", stop, true)
        end
        from = stop + 1
    end
end

-- Decodes "+" and "%20"; a "%" without two hex digits stays.
local function form_decode(text)
    if not find(text, "%", 1, true) and not find(text, "+", 1, true) then
        return text
    end
    local out, n, i = {}, 0, 1
    while i <= #text do
        local c = byte(text, i)
        if c == PLUS then
            c = SPACE
        elseif c == PERCENT then
            local decoded = unhex(text, i + 1)
            if decoded then
                c, i = decoded, i + 2
            end
        end
        n, i = n + 1, i + 1
        out[n] = char(c)
    end
    return concat(out)
end

-- Reads "name=value&name=value".
local function read_query(q)
    local query, slots, values = q.query, q.fields.query, q.values
    local from = 1
    local equals = find(query, "=", 1, true)
    while equals do
        local stop = find(query, "&", from, true) or #query + 1
        local slot = slots[form_decode(sub(query, from, (equals < stop and equals or stop) - 1))]
        if slot then
            fill(values, slot, form_decode(sub(query, equals + 1, stop - 1)))
        end
        if equals < stop then
            equals = find(query, "=", stop, true)
        end
        from = stop + 1
    end
end

-- A host, comparable: lower case, without port and without one trailing dot. The port begins at the first
-- colon. A host that begins with a bracket ends at the closing bracket.
local function host_of(text)
    local host = lower(text)
    local last
    if byte(host, 1) == BRACKET then
        last = find(host, "]", 1, true) or #host
    else
        last = (find(host, ":", 1, true) or #host + 1) - 1
    end
    if byte(host, last) == DOT then
        last = last - 1
    end
    return sub(host, 1, last)
end

--- What will be known of a request, of each in its turn.
function _M.scratch(fields)
    return {
        fields = fields, attrs = false, query = false, address = false, values = new_table(fields.count, 0),
        parts = {}, segments = false, labels = false,
    }
end

--- Begins with a request. address is nil if it is unknown.
function _M.begin(q, attrs, request_path, query, address)
    clear(q.values)
    clear(q.parts)
    q.attrs, q.query, q.address, q.segments, q.labels = attrs, query, address, false, false
    q.values[PATH] = request_path
end

-- What is not there once all are read is missing.
local function fill_rest(values, slots)
    for i = 1, #slots do
        if values[slots[i]] == nil then
            values[slots[i]] = false
        end
    end
end

-- Reads the value of a slot, of a kind that stands alone.
local function read(attrs, slot, name)
    if slot == HOST then
        return host_of(attrs.host or "")
    elseif slot == METHOD then
        return attrs.method
    elseif slot == ZONE then
        return attrs.zone
    elseif name == "cookie" then
        return attrs.cookie
    end
    return attrs:header(name)
end

--- The value in a slot, false if it is missing.
function _M.value(q, slot)
    local values, fields = q.values, q.fields
    if values[slot] ~= nil then
        return values[slot]
    end
    local kind = fields.kinds[slot]
    if kind == "cookie" then
        read_cookies(q)
        fill_rest(values, fields.cookies)
    elseif kind == "query" then
        read_query(q)
        fill_rest(values, fields.queries)
    else
        values[slot] = or_false(read(q.attrs, slot, fields.names[slot]))
    end
    return values[slot]
end

--- What a value, which is there, is made of: segments, labels, or itself.
function _M.pieces(q, slot)
    local value = q.values[slot]
    if slot == PATH then
        q.segments = q.segments or value == "/" and {} or split(value, "/", 2)
        return q.segments
    elseif slot == HOST then
        q.labels = q.labels or split(value, ".", 1)
        return q.labels
    end
    return {value}
end

return _M
