--- What a value must look like. Paths and hosts are made of pieces (segments, labels): "*" is any text
-- within one, "**" any number of whole ones. Any other value is one piece. limits/pattern.go says the
-- same in Go.
--
-- Each run of pieces, and each run of text, is looked for once, leftmost first: what stands between
-- stars can do no better further right. So no pattern is slow, whatever the value.

local find, sub = string.find, string.sub
local split = require("resty.authz.path").split

local _M = {}

-- A piece is one segment, label or value, cut at its stars: prefix*middle*middle*suffix.
local function new_piece(text)
    local runs = split(text, "*", 1)
    local piece = {prefix = runs[1], suffix = runs[#runs], middle = {}, star = #runs > 1}
    for i = 2, #runs - 1 do
        if runs[i] ~= "" then
            piece.middle[#piece.middle + 1] = runs[i]
        end
    end
    return piece
end

local function piece_meets(piece, text)
    local prefix, suffix = piece.prefix, piece.suffix
    if not piece.star then
        return text == prefix
    end
    local from, last = #prefix + 1, #text - #suffix
    if last < from - 1 or sub(text, 1, from - 1) ~= prefix or sub(text, last + 1) ~= suffix then
        return false
    end
    local middle = piece.middle
    for i = 1, #middle do
        local _, stop = find(text, middle[i], from, true)
        if not stop or stop > last then
            return false
        end
        from = stop + 1
    end
    return true
end

-- Whether the pieces from `from` on, of which none is after `last`, begin with the group.
local function group_meets(group, pieces, from, last)
    if from + #group - 1 > last then
        return false
    end
    for i = 1, #group do
        if not piece_meets(group[i], pieces[from + i - 1]) then
            return false
        end
    end
    return true
end

-- Groups are the pieces between one "**" and the next.
local function groups_meet(groups, pieces)
    local from, last, count = 1, #pieces, #groups
    if not group_meets(groups[1], pieces, from, last) then
        return false
    end
    from = from + #groups[1]
    if count == 1 then
        return from > last
    end
    local back = last - #groups[count] + 1
    if back < from or not group_meets(groups[count], pieces, back, last) then
        return false
    end
    last = back - 1
    for g = 2, count - 1 do
        local group = groups[g]
        while not group_meets(group, pieces, from, last) do
            if from > last then
                return false
            end
            from = from + 1
        end
        from = from + #group
    end
    return true
end

-- sep is "/" for a path, "." for a host, nil for anything else.
local function new_groups(text, sep)
    if not sep then
        return {{new_piece(text)}}
    end
    local groups = {{}}
    for _, s in ipairs(split(text, sep, sep == "/" and 2 or 1)) do
        if s == "**" then
            groups[#groups + 1] = {}
        else
            local group = groups[#groups]
            group[#group + 1] = new_piece(s)
        end
    end
    return groups
end

--- Compiles patterns, any of which will do. literal has the place of each that only one value meets,
-- globs are the others, by place.
function _M.list(texts, sep)
    local list = {literal = {}, globs = {}}
    for place, text in ipairs(texts) do
        if find(text, "*", 1, true) then
            list.globs[#list.globs + 1] = {place = place, groups = new_groups(text, sep)}
        else
            list.literal[text] = list.literal[text] or place
        end
    end
    return list
end

--- The place of the first pattern that a value meets, nil for none. pieces is what the value is made
-- of; it is read only if the list has globs.
function _M.first(list, value, pieces)
    local first = list.literal[value]
    local globs = list.globs
    for i = 1, #globs do
        local glob = globs[i]
        if first and glob.place > first then
            break
        end
        if groups_meet(glob.groups, pieces) then
            return glob.place
        end
    end
    return first
end

return _M
