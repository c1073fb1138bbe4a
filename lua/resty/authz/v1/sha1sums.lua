-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.
return [[
b52fbb3ed84e07265eb1f43172a782ff7568b40b  fixed_window.lua
62417d5f4e048681a303478f3a27de6fafcf0bfc  leaky_bucket.lua
d368a1510c88efee30984372c03abba4f8c6b475  sliding_counter.lua
ff5b9a4ab4f577255e1162d35d15eb3b0da68ab1  sliding_window.lua
691a8b6e0bae44d5a78a04ab484f4d94de6d0aed  take.lua
3ba1fe83ed06060dbf2e7343af949fad8a1dde09  token_bucket.lua
]]
