--- The options of new{…}: README.md says what each is.

local dicts = require "resty.authz.dicts"
local duration = require "resty.authz.duration"

local format = string.format

local _M = {}

local OPTIONS = {
    policy = "string", redis = "table", dict = "string", metrics = "string", headers = "string",
    retry_after_max = "string", admitted_headers = "boolean", refusal_cache = "boolean",
}
local HEADERS = {
    ietf = {ietf = true}, legacy = {legacy = true}, both = {ietf = true, legacy = true},
}

--- What is wrong with the options, or nil.
function _M.problem(options)
    if type(options) ~= "table" then
        return format("the options are a %s, want a table", type(options))
    end
    for name, value in pairs(options) do
        local want = OPTIONS[name]
        if not want then
            return tostring(name) .. " is no option, want one of admitted_headers, dict, headers, metrics, "
                .. "policy, redis, refusal_cache, retry_after_max"
        elseif type(value) ~= want then
            return format("%s is a %s, want a %s", name, type(value), want)
        end
    end
    if options.headers and not HEADERS[options.headers] then
        return format('headers = %q, want "ietf", "legacy" or "both"', options.headers)
    elseif options.refusal_cache and not (options.policy and options.redis) then
        return "refusal_cache = true, want policy and redis beside it: it caches what Redis refuses"
    end
    for name, dict in pairs({dict = options.dict or "authz", metrics = options.metrics}) do
        if not ngx.shared[dict] then
            return format("%s = %q, but nginx.conf has no lua_shared_dict %s", name, dict, dict)
        end
    end
end

--- Which shared dict is too small for what the pack has to keep in it with this set, or nil.
function _M.size_problem(options, set)
    return dicts.buckets_error(options.dict or "authz", set, options.redis ~= nil)
        or options.metrics and dicts.counters_error(options.metrics, set)
end

--- What the headers of an answer are to be, or nil and what is wrong.
function _M.header_style(options)
    local given = HEADERS[options.headers or "ietf"]
    local style = {ietf = given.ietf, legacy = given.legacy}
    if options.retry_after_max then
        local ms, problem = duration.ms(options.retry_after_max)
        if problem then
            return nil, "retry_after_max " .. problem
        elseif ms % 1000 ~= 0 then
            return nil, format("retry_after_max = %q, want whole seconds", options.retry_after_max)
        end
        style.retry_after_max = ms / 1000
    end
    return style
end

return _M
