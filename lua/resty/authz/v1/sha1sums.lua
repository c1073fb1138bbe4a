-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.
return [[
f1d481abd7284574b41aba8be4a72bae853fb9db  fixed_window.lua
575b444900a5139a7b46a0ac76a8303a65af0e7a  leaky_bucket.lua
b75090246757ceae457405d961aaf2ff284f8e05  sliding_counter.lua
a3ae29ad5dc35085659bc6cc6ef9c11759374855  sliding_window.lua
0e0a189e87ac96b4cfaaecf13bd21ebf81888c2c  take.lua
07ce55eec38b2ba5b8a96bdfc7d3e07c525439c4  token_bucket.lua
]]
