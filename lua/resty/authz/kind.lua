--- The kinds of failure, in the few words of the service's metrics. internal/store/redisstore/kind.go says what each
-- means.

local find, sub = string.find, string.sub

local _M = {}

-- The words of Redis's errors that have a kind of their own; those of a script's own errors stand
-- further back, after a "-".
local KINDS = {
    {"NOSCRIPT", "noscript"}, {"OOM", "oom"}, {"READONLY", "readonly"}, {"MISCONF", "misconf"},
    {"LOADING", "loading"}, {"BUSY", "busy"}, {"NOPERM", "noperm"}, {"NOAUTH", "noauth"},
    {"WRONGPASS", "noauth"}, {"DENIED", "noauth"}, {"WRONGTYPE", "wrongtype"},
    {"MASTERDOWN", "masterdown"}, {"CLUSTERDOWN", "clusterdown"}, {"MOVED", "moved"}, {"ASK", "moved"},
    {"TRYAGAIN", "moved"}, {"CROSSSLOT", "crossslot"},
}
local PHRASES = {
    {"ACL failure in script", "noperm"}, {"The user executing the script can't", "noperm"},
    {"unauthenticated multibulk length", "noauth"}, -- an EVALSHA of more than ten words
    {"unauthenticated bulk length", "noauth"}, -- a script of more than 16 KB
    {"invalid password", "noauth"}, {"called without any password configured", "noauth"},
    {"but no password is set", "noauth"}, {"max number of clients", "pool"},
    {"while the cluster is down", "clusterdown"},
    {"do not hash to the same slot", "crossslot"}, {"non local key", "crossslot"},
}

--- reply sorts an error that Redis sent, in the words of the service's metrics.
function _M.reply(text)
    for _, known in ipairs(KINDS) do
        if sub(text, 1, #known[1] + 1) == known[1] .. " " then return known[2] end
    end
    if sub(text, 1, 4) ~= "ERR " then return "other" end
    for _, known in ipairs(KINDS) do
        if find(text, "-" .. known[1] .. " ", 1, true) then return known[2] end
    end
    for _, known in ipairs(PHRASES) do
        if find(text, known[1], 1, true) then return known[2] end
    end
    return "other"
end

--- connection sorts an error of a connection that was made.
function _M.connection(text)
    return text == "timeout" and "timeout" or "network"
end

-- How connecting fails when Redis is not there. Whatever else it says, this nginx is short of something
-- that requests use up: files, worker_connections (which have no words of their own), a place in a queue.
local NOT_THERE = {
    "refused", "no such file", "unreachable", "no route", "timed out", "permission denied", "reset by peer",
    "closed", "broken pipe", "could not be resolved", "no resolver", "handshake",
}

--- connecting sorts an error of connecting.
function _M.connecting(text)
    for _, words in ipairs(NOT_THERE) do
        if find(text, words, 1, true) then return "network" end
    end
    return text == "timeout" and "timeout" or "pool"
end

return _M
