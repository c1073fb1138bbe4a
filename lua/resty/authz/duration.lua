-- Durations with their unit, as the limits file has them. A bare number is nobody's idea of the
-- same unit.

local _M = {}

local MS = {ms = 1, s = 1000, m = 60000, h = 3600000, d = 86400000}

--- ms returns the milliseconds of a text such as "50ms", or nil and what is wrong.
function _M.ms(text)
    if type(text) == "string" then
        local count, unit = string.match(text, "^(%d+)(%a+)$")
        local ms = count and MS[unit] and tonumber(count) * MS[unit]
        if ms and ms >= 1 and ms <= 2147483647 then return ms end
    end
    local found = type(text) == "string" and string.format("%q", text) or tostring(text)
    return nil, "= " .. found .. ', want a duration with a unit, such as "50ms" or "2s"'
end

return _M
