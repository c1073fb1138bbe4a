--- Remembers what a pure function says of texts that come again and again, such as a client's address.
-- Bounded: when it is full it begins anew, and long texts are not kept.

local MOST, LONGEST = 1000, 200

local _M = {}

--- Returns f, a function of one text with up to two results, with a memory.
function _M.of(f)
    local known, count = {}, 0
    return function(text)
        local results = known[text]
        if results then
            return results[1], results[2]
        end
        local first, second = f(text)
        if #text <= LONGEST then
            if count == MOST then
                known, count = {}, 0
            end
            known[text], count = {first, second}, count + 1
        end
        return first, second
    end
end

return _M
