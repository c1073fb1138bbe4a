--- nginx's variables and its clock, by functions that LuaJIT compiles whatever else the worker runs.
-- resty.core's own, behind ngx.var and ngx.now, return by a tail call into C. Where a worker runs them often
-- enough by themselves, LuaJIT gives up on them and on all that calls them: a variable then costs ten times
-- what it costs here.

local ffi = require "ffi"
local base = require "resty.core.base"
require "resty.core.time"
require "resty.core.var"

local floor, tonumber = math.floor, tonumber
local C, to_string = ffi.C, ffi.string
local get_request, FFI_OK, FFI_ERROR = base.get_request, base.FFI_OK, base.FFI_ERROR

local _M = {}

local LONGEST_NAME = 64

local name_buffer = ffi.new("unsigned char[?]", LONGEST_NAME)
local value, length, problem = ffi.new("unsigned char *[1]"), ffi.new("size_t[1]"), ffi.new("char *[1]")

--- The value of an nginx variable, nil when there is none of this name.
function _M.variable(name)
    local rc = C.ngx_http_lua_ffi_var_get(get_request(), name, #name, name_buffer, 0, value, length, problem)
    if rc == FFI_OK then
        local text = to_string(value[0], length[0])
        return text
    elseif rc == FFI_ERROR then
        error(to_string(problem[0]), 2) -- there is no request, as in a timer
    end
    return nil
end

--- nginx's clock in seconds, to a millisecond: when it began with the events that it handles now.
local function now()
    local seconds = tonumber(C.ngx_http_lua_ffi_now())
    return seconds
end
_M.now = now

--- The same in whole microseconds.
function _M.now_us()
    local ms = floor(now() * 1000 + 0.5)
    return ms * 1000
end

return _M
