--- SHA-256, by the OpenSSL that nginx has loaded.

local ffi = require "ffi"
local bit = require "bit"

ffi.cdef [[
unsigned char *SHA256(const unsigned char *d, size_t n, unsigned char *md);
int SHA256_Init(void *c);
int SHA256_Update(void *c, const void *d, size_t n);
int SHA256_Final(unsigned char *md, void *c);
]]

local STATE_BYTES = 256 -- OpenSSL's has 112
local PIECE = 65536 -- bytes, some 0.2 ms

local min = math.min
local sum = ffi.new("unsigned char[32]")
local hex = ffi.new("char[64]")
local digits = ffi.new("char[16]", "0123456789abcdef")

-- Puts the SHA-256 of n bytes into sum, and calls pause() between its pieces.
local function in_pieces(text, n, pause)
    local state = ffi.new("uint64_t[?]", STATE_BYTES / 8) -- another may begin during a pause
    local context = ffi.cast("void *", state)
    ffi.C.SHA256_Init(context)
    for at = 0, n - 1, PIECE do
        ffi.C.SHA256_Update(context, text + at, min(PIECE, n - at))
        pause()
    end
    ffi.C.SHA256_Final(sum, context)
end

--- The first `bytes` bytes of the SHA-256 of the text, or of what it has from `from` on, in hex. pause(), if
-- there is one, is called now and then.
return function(text, bytes, from, pause)
    local skipped = from and from - 1 or 0
    local data, n = ffi.cast("const unsigned char *", text) + skipped, #text - skipped
    if pause then
        in_pieces(data, n, pause)
    else
        ffi.C.SHA256(data, n, sum)
    end
    for i = 0, bytes - 1 do
        hex[2 * i], hex[2 * i + 1] = digits[bit.rshift(sum[i], 4)], digits[bit.band(sum[i], 15)]
    end
    return ffi.string(hex, 2 * bytes)
end
