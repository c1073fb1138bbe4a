--- The decision of a client request, where nginx keeps it: in the variables of openresty.conf, which outlive
-- internal redirects and rewrites, and in ngx.ctx, which does not. A client request is the main request and
-- its subrequests.

local decision = require "resty.authz.decision"
local variable = require("resty.authz.nginx").variable

local sub = string.sub
local ngx = ngx

local _M = {}

local PENDING = {} -- where ngx.ctx keeps the decision of check()

-- What $authz_pending says of a decision that is not applied yet. LATER is for access(), also after a
-- redirect. NOW is for the code that called check(), until nginx redirects. INSIDE: a subrequest was refused,
-- and so is the rest of the client request.
local LATER, NOW, INSIDE = "later", "now", "inside"

-- After these phases comes another in which access() can stand.
local EARLY = {server_rewrite = true, rewrite = true}

-- ngx.location.capture starts a subrequest without its parent's variables. The latest client requests of
-- this worker are therefore in a table as well: in two, of which the older is dropped when the newer is full.
local MOST = 5000
local newer, older, count = {}, {}, 0

-- A subrequest is being decided. The others of its client request, as in a page of SSI, wait for it.
local DECIDING, LONGEST_WAIT_S = "deciding", 1

-- The name of the client request in this worker: connections are numbered, and count their requests.
local function name()
    return variable("connection") .. "|" .. variable("connection_requests")
end

local function mark(text)
    if count == MOST then
        newer, older, count = {}, newer, 0
    end
    newer[name()], count = text, count + 1
end

-- For a subrequest without a decision in its variables: the decision of its client request, nil if it has to
-- make one, and whether that refuses everything.
local function of_table()
    local id, until_s = name(), ngx.now() + LONGEST_WAIT_S
    local text = newer[id] or older[id]
    while text == DECIDING and ngx.now() < until_s do
        ngx.sleep(0.001)
        text = newer[id] or older[id]
    end
    if not text or text == DECIDING then
        mark(DECIDING)
        return nil, false
    end
    return decision.again(sub(text, 1, 3), variable("authz_limit") or ""), #text > 3
end

--- The decision that was made before in this client request, nil if there is none, and whether access() has
-- to apply it. An error blames the caller's caller where the server{} lacks openresty.conf: $authz_pending
-- is the one variable that nothing else sets.
function _M.decided()
    local pending = variable("authz_pending")
    if not pending then
        error("authz: this server{} does not include authz/openresty.conf", 4)
    end
    local status = variable("authz_status") or "" -- the service's includes declare it without a value
    if status == "" then
        if ngx.is_subrequest then
            return of_table()
        end
        return nil, false
    end
    local d = pending ~= "" and ngx.ctx[PENDING]
    if d then
        return d, true
    end
    d = decision.again(status, variable("authz_limit") or "")
    if pending == LATER then
        -- A status is there: this is the page of an answer that the site or nginx gave after check().
        return d, not ngx.is_subrequest and ngx.status < 200
    end
    return d, pending == INSIDE
end

--- Notes a decision that was made for the first time in this client request.
function _M.note(d)
    local var = ngx.var
    var.authz_status = d.status
    if d.limit then
        var.authz_limit = d.limit.name
    end
    if d.degraded then
        var.authz_degraded = d.degraded
    end
    mark(tostring(d.status))
end

--- Ends the matter of a decision: the site has overruled it, and access() lets the request pass.
local function dismiss(d)
    d.again = true
    ngx.var.authz_pending, ngx.ctx[PENDING] = "", nil
end

--- Leaves a decision of check() to the caller and to access().
function _M.leave(d, phase)
    d.dismiss = dismiss
    if not d.again then
        ngx.var.authz_pending, ngx.ctx[PENDING] = EARLY[phase] and LATER or NOW, d
    end
end

--- Notes that a decision is applied.
function _M.applied(d)
    ngx.ctx[PENDING] = nil
    if ngx.is_subrequest and d.verdict ~= "admitted" then
        ngx.var.authz_pending = INSIDE
        mark(d.status .. INSIDE)
    else
        ngx.var.authz_pending = ""
    end
end

return _M
