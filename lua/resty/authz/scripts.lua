-- The scripts that Redis runs, byte for byte those of the service.
--
-- They stand in v1/ beside this file: links into redisscripts/ in the repository, the files
-- themselves where the pack is installed. sha1sums.lua is redisscripts/v1/SHA1SUMS; nothing runs
-- that it does not vouch for, since two versions would charge the same buckets differently.

local _M = {}

local NAMES = {
    "take", "token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter",
}

-- Where this file lies, with the last slash.
local here = string.match(debug.getinfo(1, "S").source, "^@(.*/)") or ""

local function sha1(text)
    return (string.gsub(ngx.sha1_bin(text), ".", function(byte)
        return string.format("%02x", string.byte(byte))
    end))
end

local function listed_sums(text)
    local sums = {}
    for sum, file in string.gmatch(text, "(%x+)  ([^\n]+)\n") do sums[file] = sum end
    return sums
end

--- load returns the scripts by name, each {text = …, sha = …}, or nil and what is wrong.
function _M.load()
    local sums_file = here .. "v1/sha1sums.lua"
    local chunk, problem = loadfile(sums_file)
    if not chunk then return nil, problem end
    local sums, loaded = listed_sums(chunk()), {}
    for _, name in ipairs(NAMES) do
        local path = here .. "v1/" .. name .. ".lua"
        local file, err = io.open(path, "rb")
        if not file then return nil, err end
        local text = file:read("*a")
        file:close()
        local sha = sha1(text)
        if sha ~= sums[name .. ".lua"] then
            return nil, string.format("%s: SHA-1 is %s, want %s as %s says", path, sha,
                sums[name .. ".lua"] or "none", sums_file)
        end
        loaded[name] = {text = text, sha = sha}
    end
    return loaded
end

--- fragments returns the pure functions that the scripts are composed of, by name: what Redis
-- runs is what runs here, and SHA1SUMS vouches for both. A fragment begins with its name at the
-- left margin and ends with the next `end` there.
function _M.fragments(loaded)
    local found = {}
    for _, name in ipairs(NAMES) do
        local text = loaded[name].text
        for start, fragment in string.gmatch(text, "\n()local function ([%w_]+)%(") do
            local _, last = string.find(text, "\nend\n", start, true)
            found[fragment] = string.sub(text, start, last)
        end
    end
    local functions = {}
    for _, fragment in ipairs(_M.fragment_names) do
        local chunk = assert(loadstring(found[fragment] .. "return " .. fragment, "=" .. fragment))
        functions[fragment] = chunk()
    end
    return functions
end

_M.fragment_names = {
    "gcd", "bucket_used", "bucket_answer", "fixed_used", "fixed_answer", "counter_used",
    "counter_answer", "log_answer",
}

return _M
