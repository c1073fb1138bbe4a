std = "lua51"
max_line_length = 120

-- The sources of the scripts are looked at as composed, in v1.
exclude_files = {"redisscripts/src/*.lua", "lua/resty/authz/v1/*.lua"}
files["redisscripts/v1"] = {read_globals = {"redis", "KEYS", "ARGV"}, ignore = {"431"}}

-- A fragment is pure, and is used where it is pasted.
files["redisscripts/src/lib"] = {std = "none", read_globals = {"math", "string", "tonumber"}, ignore = {"211"}}

-- The OpenResty pack, and the Lua that its tests run in nginx.
files["lua"] = {std = "ngx_lua"}
files["tests/lua"] = {std = "ngx_lua"}
