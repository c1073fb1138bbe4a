--- Counters in a lua_shared_dict, and their Prometheus text. The names and labels are those of the
-- service: names of limits, verdicts and kinds of errors, never anything that a client sent.
--
-- A counter's key is its line without the number. It has a dict of its own, which buckets cannot crowd it
-- out of.

local concat = table.concat

local VERDICTS = {"admitted", "limited", "blocked", "unavailable"}
local KINDS = {
    "timeout", "pool", "network", "oom", "readonly", "misconf", "loading", "busy", "noscript", "noperm",
    "noauth", "wrongtype", "masterdown", "clusterdown", "moved", "crossslot", "malformed", "other",
}

-- The series of a name for all values of its one label, by value and in a list.
local function labelled(name, label, values)
    local series = {}
    for i, value in ipairs(values) do
        series[i] = name .. "{" .. label .. '="' .. value .. '"}'
        series[value] = series[i]
    end
    return series
end

local REQUESTS = labelled("authz_requests_total", "verdict", VERDICTS)
local DEGRADED = labelled("authz_degraded_total", "on_error", {"allow", "local", "deny"})
local STORE_ERRORS = labelled("authz_store_errors_total", "kind", KINDS)
local DICT_WRITES = labelled("authz_dict_writes_total", "event", {"evicted", "full"})

local _M = {}
_M.__index = _M

--- The counters in dict, an ngx.shared.NAME; nil: nothing is counted.
function _M.new(dict)
    return setmetatable({dict = dict}, _M)
end

local function add(self, series)
    if self.dict then
        self.dict:incr(series, 1, 0)
    end
end

--- Counts an answer to a request.
function _M:request(verdict)
    add(self, REQUESTS[verdict])
end

-- The series of a limit, by verdict, and that of its missing key parts. A limit keeps them.
local series_of = setmetatable({}, {__mode = "k"})

local function limit_series(limit)
    local series = {missing = 'authz_key_parts_missing_total{limit="' .. limit.name .. '"}'}
    for _, verdict in ipairs(VERDICTS) do
        local shadow = limit.shadow and "shadow_" or ""
        series[verdict] =
            'authz_decisions_total{limit="' .. limit.name .. '",verdict="' .. shadow .. verdict .. '"}'
    end
    series_of[limit] = series
    return series
end

--- Counts what one limit said of a request: "admitted", "limited", "blocked" or "unavailable".
function _M:decision(limit, verdict)
    add(self, (series_of[limit] or limit_series(limit))[verdict])
end

--- Counts a request in which a part of the limit's key was missing.
function _M:missing(limit)
    add(self, (series_of[limit] or limit_series(limit)).missing)
end

--- Counts a request that on_error decided.
function _M:degraded(by)
    add(self, DEGRADED[by])
end

--- Counts a request that Redis could not decide.
function _M:store_error(kind)
    add(self, STORE_ERRORS[kind])
end

--- Counts a request that the refusal cache answered.
function _M:cached()
    add(self, "authz_cached_refusals_total")
end

--- Counts writes for which the dict of buckets dropped others ("evicted") or had no room ("full").
function _M:dict_event(event)
    add(self, DICT_WRITES[event])
end

-- The series of the limits in force: all of them, so that each begins at 0.
local function of_limits(limits)
    local decisions, missing = {}, {}
    for i, limit in ipairs(limits) do
        for _, verdict in ipairs(limit.shadow and {"admitted", "limited"} or VERDICTS) do
            decisions[#decisions + 1] = limit_series(limit)[verdict]
        end
        missing[i] = limit_series(limit).missing
    end
    return decisions, missing
end

--- All counters as Prometheus text. limits: those in force.
function _M:text(limits)
    local lines = {}
    local function show(name, about, series)
        lines[#lines + 1] = "# HELP " .. name .. " " .. about
        lines[#lines + 1] = "# TYPE " .. name .. " counter"
        for _, s in ipairs(series) do
            lines[#lines + 1] = s .. " " .. string.format("%d", self.dict:get(s) or 0)
        end
    end
    local decisions, missing = of_limits(limits)
    show("authz_requests_total", "Requests by the answer that they got.", REQUESTS)
    show("authz_decisions_total", "What each limit said of the requests that met it; a request is admitted "
        .. "when every limit but the shadows admits it.", decisions)
    show("authz_key_parts_missing_total", "Requests in which a part of the limit's key was missing.", missing)
    show("authz_degraded_total", "Requests that the store could not decide, by the on_error that did.",
        DEGRADED)
    show("authz_store_errors_total", "Requests that the store could not decide, by what went wrong.",
        STORE_ERRORS)
    show("authz_cached_refusals_total", "Requests that the refusal cache answered.",
        {"authz_cached_refusals_total"})
    show("authz_dict_writes_total", "Writes for which the shared dict dropped other buckets, or had no room.",
        DICT_WRITES)
    lines[#lines + 1] = ""
    return concat(lines, "\n")
end

return _M
