-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.
return [[
822c5d08ce5f3f2908f1a4e433056d97f3555611  fixed_window.lua
255ca182c23b092fc9492ff9219382ed3ffc336f  leaky_bucket.lua
9c1065869a283e280903534d229517297b2aa706  sliding_counter.lua
9096357bb71b231e89c352e3bd1f148d8ffc2546  sliding_window.lua
9193f7a71ec82afd99522ec51c9b4b5d34d7ccbf  take.lua
bcd1fedfdb03cb20f66a71f3c358227afc216ad2  token_bucket.lua
]]
