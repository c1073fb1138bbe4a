-- luarocks make, in this folder. The address stands for the one that is set when the pack is published, and
-- so will a license.
rockspec_format = "3.0"
package = "lua-resty-authz"
version = "0.1.0-1"
source = {
    url = "git+https://example.com/authz.git",
    tag = "v0.1.0",
    dir = "authz/lua",
}
description = {
    summary = "Rate limits for OpenResty and nginx, exact across machines, in Redis or in a shared dict",
}
dependencies = {"lua == 5.1"}
build = {
    type = "builtin",
    modules = {
        ["resty.authz"] = "resty/authz.lua",
        ["resty.authz.attrs"] = "resty/authz/attrs.lua",
        ["resty.authz.connection"] = "resty/authz/connection.lua",
        ["resty.authz.decision"] = "resty/authz/decision.lua",
        ["resty.authz.dicts"] = "resty/authz/dicts.lua",
        ["resty.authz.duration"] = "resty/authz/duration.lua",
        ["resty.authz.file"] = "resty/authz/file.lua",
        ["resty.authz.index"] = "resty/authz/index.lua",
        ["resty.authz.ip"] = "resty/authz/ip.lua",
        ["resty.authz.json"] = "resty/authz/json.lua",
        ["resty.authz.key"] = "resty/authz/key.lua",
        ["resty.authz.kind"] = "resty/authz/kind.lua",
        ["resty.authz.match"] = "resty/authz/match.lua",
        ["resty.authz.memo"] = "resty/authz/memo.lua",
        ["resty.authz.metrics"] = "resty/authz/metrics.lua",
        ["resty.authz.nginx"] = "resty/authz/nginx.lua",
        ["resty.authz.numbers"] = "resty/authz/numbers.lua",
        ["resty.authz.options"] = "resty/authz/options.lua",
        ["resty.authz.path"] = "resty/authz/path.lua",
        ["resty.authz.pattern"] = "resty/authz/pattern.lua",
        ["resty.authz.policy"] = "resty/authz/policy.lua",
        ["resty.authz.decide"] = "resty/authz/decide.lua",
        ["resty.authz.flight"] = "resty/authz/flight.lua",
        ["resty.authz.breaker"] = "resty/authz/breaker.lua",
        ["resty.authz.redis"] = "resty/authz/redis.lua",
        ["resty.authz.refusals"] = "resty/authz/refusals.lua",
        ["resty.authz.request"] = "resty/authz/request.lua",
        ["resty.authz.schedule"] = "resty/authz/schedule.lua",
        ["resty.authz.schema"] = "resty/authz/schema.lua",
        ["resty.authz.scripts"] = "resty/authz/scripts.lua",
        ["resty.authz.sha256"] = "resty/authz/sha256.lua",
        ["resty.authz.shdict"] = "resty/authz/shdict.lua",
        ["resty.authz.slot"] = "resty/authz/slot.lua",
        ["resty.authz.v1.fixed_window"] = "resty/authz/v1/fixed_window.lua",
        ["resty.authz.v1.leaky_bucket"] = "resty/authz/v1/leaky_bucket.lua",
        ["resty.authz.v1.sha1sums"] = "resty/authz/v1/sha1sums.lua",
        ["resty.authz.v1.sliding_counter"] = "resty/authz/v1/sliding_counter.lua",
        ["resty.authz.v1.sliding_window"] = "resty/authz/v1/sliding_window.lua",
        ["resty.authz.v1.take"] = "resty/authz/v1/take.lua",
        ["resty.authz.v1.token_bucket"] = "resty/authz/v1/token_bucket.lua",
    },
}
