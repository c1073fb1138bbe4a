--- Counters, and their Prometheus text. The names and labels are those of the service: names of limits and
-- rules, verdicts and kinds of errors, never anything that a client sent.
--
-- A worker counts for itself, and ten times a second adds what it has to a lua_shared_dict: one that is
-- theirs alone, which buckets cannot crowd them out of. A counter's key is its line without the number.
-- Whoever writes the text waits until the others have added what they had.

local concat, format = table.concat, string.format

local FLUSH_S = 0.1
local DOUBT_S = 1 -- whoever has not added by then never will: the worker was killed

local VERDICTS = {"admitted", "limited", "blocked", "unavailable"}
local KINDS = {
    "timeout", "queue", "pool", "network", "breaker", "oom", "readonly", "misconf", "loading", "busy", "noscript",
    "noperm", "noauth", "wrongtype", "masterdown", "clusterdown", "moved", "crossslot", "malformed", "other",
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
local REMEMBERED, UNKNOWN_IP = "authz_remembered_refusals_total", "authz_unknown_ip_total"
local UNREADABLE_IP = "authz_unreadable_ip_total"

local _M = {}
_M.__index = _M

local of_dict = {}

--- The counters in dict, an ngx.shared.NAME; nil: nothing is counted.
function _M.new(dict)
    local self = of_dict[dict or "none"] or setmetatable({
        dict = dict, counts = {}, announced = false, announcements = 0,
    }, _M)
    of_dict[dict or "none"] = self
    return self
end

-- Adds to the dict what this worker has counted.
local function flush(_, self)
    local dict, counts = self.dict, self.counts
    for series, count in pairs(counts) do
        if count > 0 then
            dict:incr(series, count, 0)
            counts[series] = 0
        end
    end
    dict:delete(self.announced)
    self.announced = false
end

-- The key by which a worker announces that it has counted what is not in the dict.
local function announcement(worker)
    return "\0counted|" .. worker
end

local function announce(self)
    self.announced, self.announcements = announcement(ngx.worker.id() or 0), self.announcements + 1
    self.dict:set(self.announced, self.announcements, DOUBT_S)
    if not ngx.timer.at(FLUSH_S, flush, self) then -- nginx has no timer left
        flush(nil, self)
    end
end

local function add(self, series)
    if not self.dict then
        return
    end
    local counts = self.counts
    counts[series] = (counts[series] or 0) + 1
    if not self.announced then
        announce(self)
    end
end

--- Counts an answer to a request.
function _M:request(verdict)
    add(self, REQUESTS[verdict])
end

-- The series of a limit, by verdict, and that of its missing key parts. A limit keeps them.
local series_of = setmetatable({}, {__mode = "k"})

local function limit_series(limit)
    local series = series_of[limit]
    if not series then
        series = {missing = 'authz_key_parts_missing_total{limit="' .. limit.name .. '"}',
            near = 'authz_near_limit_total{limit="' .. limit.name .. '"}'}
        for _, verdict in ipairs(VERDICTS) do
            local shadow = limit.shadow and "shadow_" or ""
            series[verdict] =
                'authz_decisions_total{limit="' .. limit.name .. '",verdict="' .. shadow .. verdict .. '"}'
        end
        series_of[limit] = series
    end
    return series
end

--- Counts what one limit said of a request: "admitted", "limited", "blocked" or "unavailable".
function _M:decision(limit, verdict)
    add(self, limit_series(limit)[verdict])
end

--- Counts a request in which a part of the limit's key was missing.
function _M:missing(limit)
    add(self, limit_series(limit).missing)
end

--- Counts a request that a limit admitted with less than a fifth of its capacity left.
function _M:near(limit)
    add(self, limit_series(limit).near)
end

local function rule_series(rule, verdict)
    return format('authz_rule_decisions_total{rule="%s",verdict="%s"}', rule, verdict)
end

--- Counts a request that an allow rule admitted or a deny rule blocked.
function _M:rule(rule, verdict)
    add(self, rule_series(rule, verdict))
end

--- Counts a request without any client address.
function _M:unknown_ip()
    add(self, UNKNOWN_IP)
end

--- Counts a request whose client address cannot be read.
function _M:unreadable_ip()
    add(self, UNREADABLE_IP)
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
function _M:remembered()
    add(self, REMEMBERED)
end

--- Counts writes for which the dict of buckets dropped others ("evicted") or had no room ("full").
function _M:dict_event(event)
    add(self, DICT_WRITES[event])
end

-- Waits until all workers have added what they had counted when this began.
local function await_flushes(self)
    local dict, awaited = self.dict, {}
    for worker = 0, ngx.worker.count() - 1 do
        awaited[announcement(worker)] = dict:get(announcement(worker))
    end
    while true do
        for key, number in pairs(awaited) do
            if dict:get(key) ~= number then
                awaited[key] = nil
            end
        end
        if not next(awaited) then
            return
        end
        ngx.sleep(0.01)
    end
end

-- The series of the limits and rules in force: all of them, so that each begins at 0.
local function of_set(set)
    local decisions, missing, near, rules = {}, {}, {}, {}
    for _, rule in ipairs(set.rules) do
        local limit = rule.limit
        if limit then
            for _, verdict in ipairs(limit.shadow and {"admitted", "limited"} or VERDICTS) do
                decisions[#decisions + 1] = limit_series(limit)[verdict]
            end
            missing[#missing + 1] = limit_series(limit).missing
            near[#near + 1] = limit_series(limit).near
        else
            rules[#rules + 1] = rule_series(rule.name, rule.verdict == "allow" and "admitted" or "blocked")
        end
    end
    return decisions, missing, near, rules
end

local function add_header(lines, name, about, kind)
    lines[#lines + 1] = "# HELP " .. name .. " " .. about
    lines[#lines + 1] = "# TYPE " .. name .. " " .. kind
end

local function add_policy(lines, policy)
    local function gauge(name, about, value)
        add_header(lines, name, about, "gauge")
        lines[#lines + 1] = name .. " " .. value
    end
    gauge("authz_limits_last_reload_successful", "Whether the last load of the limits succeeded.",
        policy.failure and 0 or 1)
    gauge("authz_limits_last_reload_success_timestamp_seconds", "When the limits were last loaded.",
        format("%.3f", policy.loaded_s))
    gauge("authz_limits", "Limits in force.", #policy:current().limits)
end

--- All counters as Prometheus text. policy is that in force, nil if there is none.
function _M:text(policy)
    await_flushes(self)
    local lines = {}
    local function show(name, about, series)
        add_header(lines, name, about, "counter")
        for _, s in ipairs(series) do
            lines[#lines + 1] = s .. " " .. format("%d", self.dict:get(s) or 0)
        end
    end
    show("authz_requests_total", "Requests by the answer that they got.", REQUESTS)
    if policy then
        local decisions, missing, near, rules = of_set(policy:current())
        show("authz_decisions_total", "What each limit said of the requests that met it; a request is "
            .. "admitted when every limit but the shadows admits it.", decisions)
        show("authz_rule_decisions_total", "Requests that an allow rule admitted or a deny rule blocked.",
            rules)
        show("authz_key_parts_missing_total", "Requests in which a part of the limit's key was missing.",
            missing)
        show("authz_near_limit_total", "Requests that a limit admitted with less than a fifth of its "
            .. "capacity left after them; the first of a bucket is not among them.", near)
        add_policy(lines, policy)
    end
    show("authz_degraded_total", "Requests that the store could not decide, by the on_error that did.",
        DEGRADED)
    show("authz_store_errors_total", "Requests that the store could not decide, by what went wrong.",
        STORE_ERRORS)
    show(REMEMBERED, "Requests refused without asking Redis, which had refused the like before and said for "
        .. "how long.", {REMEMBERED})
    show(UNKNOWN_IP, "Requests without any client address.", {UNKNOWN_IP})
    show(UNREADABLE_IP, "Requests whose client address cannot be read, such as unix:; they count as "
        .. "ip=unknown.", {UNREADABLE_IP})
    show("authz_dict_writes_total", "Writes for which the shared dict dropped other buckets, or had no room.",
        DICT_WRITES)
    lines[#lines + 1] = ""
    return concat(lines, "\n")
end

return _M
