-- SHA-256, by the OpenSSL that nginx has loaded.

local ffi = require "ffi"
local format, concat = string.format, table.concat

ffi.cdef [[
unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md);
]]

local sum = ffi.new("unsigned char[32]")

local hex = {}
for i = 0, 255 do
    hex[i] = format("%02x", i)
end

-- The first `bytes` bytes of the text's SHA-256, in hex.
return function(text, bytes)
    ffi.C.SHA256(text, #text, sum)
    local out = {}
    for i = 1, bytes do
        out[i] = hex[sum[i - 1]]
    end
    return concat(out)
end
