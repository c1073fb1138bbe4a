--- Reads regular files, and never waits for one: a worker that opened a FIFO would answer no request until
-- another process wrote to it. io.open waits.

local ffi = require "ffi"

ffi.cdef [[
int authz_open(const char *path, int flags, ...) __asm__("open");
long authz_lseek(int fd, long offset, int whence) __asm__("lseek");
long authz_pread(int fd, void *buffer, size_t count, long offset) __asm__("pread");
int authz_close(int fd) __asm__("close");
char *authz_strerror(int number) __asm__("strerror");
]]

local C, min, format = ffi.C, math.min, string.format

local _M = {}

local NONBLOCK = ffi.os == "Linux" and 0x800 or 0x4 -- reading only
local SEEK_END = 2
local PIECE = 65536 -- bytes

local function error_text()
    return ffi.string(C.authz_strerror(ffi.errno()))
end

local function nothing() end

-- The first `bytes` bytes of an open file of this size.
local function read(fd, bytes, pause)
    local buffer, pieces, at = ffi.new("char[?]", min(PIECE, bytes)), {}, 0
    while at < bytes do
        local n = tonumber(C.authz_pread(fd, buffer, min(PIECE, bytes - at), at))
        if n < 0 then
            return nil, error_text()
        elseif n == 0 then
            return nil, format("ends after %d bytes of %d: it is being written in place", at, bytes)
        end
        at = at + n
        pieces[#pieces + 1] = ffi.string(buffer, n)
        pause()
    end
    return table.concat(pieces)
end

--- The first `most` bytes of a file, or all of them where most is nil, and the file's size; or nil and what
-- is wrong. pause() is called after each piece.
function _M.read(path, most, pause)
    local fd = C.authz_open(path, NONBLOCK)
    if fd < 0 then
        return nil, path .. ": " .. error_text()
    end
    local size = tonumber(C.authz_lseek(fd, 0, SEEK_END))
    if size < 0 then
        C.authz_close(fd)
        return nil, path .. ": is a FIFO or a socket, want a regular file"
    end
    local ran, text, err = pcall(read, fd, min(most or size, size), pause or nothing)
    C.authz_close(fd)
    if not ran then
        error(text, 0) -- short memory, say
    elseif not text then
        return nil, path .. ": " .. err
    end
    return text, size
end

return _M
