-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.
return [[
f1d481abd7284574b41aba8be4a72bae853fb9db  fixed_window.lua
6e9ef8add9aae332a4f332107a107527229c154b  leaky_bucket.lua
b75090246757ceae457405d961aaf2ff284f8e05  sliding_counter.lua
a3ae29ad5dc35085659bc6cc6ef9c11759374855  sliding_window.lua
c7ff171b63c2fe224bb36ba88f0c86d04cae8c76  take.lua
e2844f0954700222ffd05a977a237c35880aef5a  token_bucket.lua
]]
