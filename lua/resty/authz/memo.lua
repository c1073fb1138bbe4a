--- Remembers what a pure function says of texts that come again and again, such as a client's address.
-- Bounded: when it is full it begins anew, and long texts are not kept.

local MOST, LONGEST = 1000, 200

local _M = {}

--- Returns f, a function of one text with up to two results, with a memory.
function _M.of(f)
    local first_of, second_of, count = {}, {}, 0
    return function(text)
        local known = first_of[text]
        if known ~= nil then
            return known or nil, second_of[text]
        end
        local first, second = f(text)
        if #text <= LONGEST then
            if count == MOST then
                first_of, second_of, count = {}, {}, 0
            end
            first_of[text], second_of[text], count = first or false, second, count + 1
        end
        return first, second
    end
end

return _M
