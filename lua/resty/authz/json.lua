--- Decodes what `authz compile` wrote, in slices. Nearly all of a large set are overrides, of which each
-- stands by itself: they are cut out of the text, and decoded a few at a time.

local cjson = require "cjson"
local new_table = require "table.new"

local find, sub = string.find, string.sub

local _M = {}

local SLICE = 100 -- overrides
local BEGIN = '"overrides":{' -- in a text this would have backslashes
local OVERRIDE = '^"[^"\\]*":%b{}([,}])()' -- neither its key nor its numbers have quotes or braces

-- Cuts the overrides that begin at `from`: where each slice begins and ends, how many they are, and where
-- what follows begins.
local function cut(text, from, pause)
    local slices, count, at = {count = 0}, 0, from
    repeat
        local _, _, after, next_at = find(text, OVERRIDE, at)
        if not after then
            error("no override stands at byte " .. at, 0)
        end
        at, count = next_at, count + 1
        if after == "}" or count % SLICE == 0 then
            slices[#slices + 1] = {from, at - 2}
            from = at
            pause()
        end
    until after == "}"
    slices.count = count
    return slices, at
end

local function decode_slices(text, slices, pause)
    local overrides = new_table(0, slices.count)
    for _, slice in ipairs(slices) do
        for key, rate in pairs(cjson.decode("{" .. sub(text, slice[1], slice[2]) .. "}")) do
            overrides[key] = rate
        end
        pause()
    end
    return overrides
end

--- The set in a text; an error if it is no JSON. pause() is called after every few overrides.
function _M.decode(text, pause)
    local kept, cuts, from = {}, {}, 1
    local _, at = find(text, BEGIN, 1, true)
    while at do
        kept[#kept + 1] = sub(text, from, at)
        cuts[#cuts + 1], from = cut(text, at + 1, pause)
        kept[#kept + 1] = "}"
        _, at = find(text, BEGIN, from, true)
    end
    local set = cjson.decode(table.concat(kept) .. sub(text, from))
    local taken = 0
    for _, limit in ipairs(#cuts > 0 and type(set.limits) == "table" and set.limits or {}) do
        if type(limit) == "table" and limit.overrides then
            taken = taken + 1
            limit.overrides = decode_slices(text, cuts[taken], pause)
        end
    end
    return set
end

return _M
