--- SHA-256, by the OpenSSL that nginx has loaded.

local ffi = require "ffi"
local bit = require "bit"

ffi.cdef [[
unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md);
]]

local sum = ffi.new("unsigned char[32]")
local hex = ffi.new("char[64]")
local digits = ffi.new("char[16]", "0123456789abcdef")

--- The first `bytes` bytes of the SHA-256 of the text, or of what it has from `from` on, in hex.
return function(text, bytes, from)
    local skipped = from and from - 1 or 0
    ffi.C.SHA256(ffi.cast("const unsigned char *", text) + skipped, #text - skipped, sum)
    for i = 0, bytes - 1 do
        hex[2 * i], hex[2 * i + 1] = digits[bit.rshift(sum[i], 4)], digits[bit.band(sum[i], 15)]
    end
    return ffi.string(hex, 2 * bytes)
end
