--- The refusal cache: a client that was refused is refused again without a call to Redis, until the wait that
-- Redis named is over. Nothing that arrives meanwhile can shorten that wait: a refusal charges nobody.
--
-- Only a cost of 1 is cached and answered. An entry holds for the numbers that refused, until a schedule may
-- change them (they may come back, but others may have charged the key meanwhile), and for a generation: a
-- number that goes up and never comes back. A generation ends with each set that is loaded, and with the
-- epoch, the text of the Redis key PREFIX:v1:epoch: when another text is there, as after a reset, when it
-- cannot be read, and when it is gone, as in a Redis that comes back empty. A worker that finds no epoch
-- writes one, so that an empty Redis is noticed. One worker reads it twice a second. A second after the last
-- reading Redis decides every request.
--
-- The dict has what all workers know. Each worker keeps near what it found there, and looks for the
-- generation when its clock, which has milliseconds, has moved.

local decision = require "resty.authz.decision"
local nginx = require "resty.authz.nginx"
local redis = require "resty.authz.redis"

local ceil, floor, huge, min = math.ceil, math.floor, math.huge, math.min
local format = string.format
local now = nginx.now

local READ_S, KNOWN_S = 0.5, 1
local EPOCH_S = 24 * 3600 -- an epoch that a worker wrote expires, like all keys
local UNREAD = "\0unread" -- no epoch has this text
local MOST_NEAR = 1000

local _M = {}
_M.__index = _M

--- The cache in the dict of a shdict store, of what the Redis of client refuses.
function _M.new(store, client)
    return setmetatable({
        store = store, redis = client, watching = false, looked_s = 0, near = {}, near_count = 0,
    }, _M)
end

-- The keys in the dict, one set of them for each Redis and prefix; no bucket has such a key.
local function dict_keys(scope, key_prefix)
    local keys = {}
    for _, name in ipairs {"age", "epoch", "known", "lease", "refused"} do
        keys[name] = "\0" .. name .. "|" .. scope .. key_prefix .. "|"
    end
    return keys
end

-- Begins a generation. The first one, or the first after the dict dropped it, is the time in milliseconds:
-- no generation before has reached it.
local function begin(self, keys)
    self.store.dict:incr(keys.age, 1, floor(ngx.now() * 1000))
end

--- Begins a generation for a set that is loaded.
function _M:loaded(set)
    begin(self, dict_keys(self.store.scope, set.key_prefix))
end

-- Begins a generation if this is not the text of the epoch before.
local function note(self, keys, text)
    if self.store.dict:get(keys.epoch) ~= text then
        begin(self, keys)
        self.store:set(keys.epoch, text)
    end
end

-- Writes an epoch where there is none: its text, or nil if Redis failed. Where another writer was faster,
-- this is one more epoch. It is a number, so that INCR works on it.
local function write_epoch(self)
    local text = format("%.0f", floor(ngx.now() * 1000) * 1000 + ngx.worker.pid() % 1000)
    return self.redis:set(self.epoch_key, text, EPOCH_S) and text or nil
end

-- Reads the epoch, unless another worker did so half a second ago.
local function read_epoch(premature, self)
    local keys = self.keys
    if premature or not self.store.dict:add(keys.lease, true, READ_S * 0.9) then
        return
    end
    local epoch = self.redis:get(self.epoch_key)
    if epoch == false then
        epoch = write_epoch(self)
    end
    note(self, keys, epoch or UNREAD)
    if epoch then
        self.store:set(keys.known, true, KNOWN_S)
    else
        self.store.dict:delete(keys.known)
    end
end

-- Begins to use a set that this worker has not used, and to watch the epoch, once.
local function use(self, set)
    self.set, self.looked_s, self.keys = set, 0, dict_keys(self.store.scope, set.key_prefix)
    self.epoch_key = set.key_prefix .. ":v1:epoch"
    if not self.watching then
        self.watching = ngx.timer.every(READ_S, read_epoch, self)
        if self.watching then
            ngx.timer.at(0, read_epoch, self)
        else -- nginx has no timer left: the epoch is not known then, and the next request tries again
            self.set = nil
        end
    end
end

--- The age, or nil when the epoch is not known. set is the policy's in use.
function _M:age(set)
    if set ~= self.set then
        use(self, set)
    end
    local now_s = now()
    if now_s ~= self.looked_s then
        local dict, keys = self.store.dict, self.keys
        local age = dict:get(keys.known) and dict:get(keys.age)
        if age ~= self.known_age then
            self.known_age, self.near, self.near_count = age, {}, 0
        end
        self.looked_s = now_s
    end
    return self.known_age
end

-- The numbers of a rate, as a part of a key. A rate keeps its text.
local text_of = setmetatable({}, {__mode = "k"})

local function entry_key(self, age, check)
    local text = text_of[check.rate]
    if not text then
        text = "|" .. table.concat(redis.words(check.limit, check.rate), ":") .. "|"
        text_of[check.rate] = text
    end
    return self.keys.refused .. age .. text .. check.key
end

-- For how long a refusal still holds; nil: it is over.
local function left_of(entry, now_us)
    if now_us >= entry.counts_until_us then
        return nil
    end
    local left_us = entry.until_us - now_us
    -- Longer than it was at first: the clock was set back, and nobody is locked out for it.
    return left_us > 0 and left_us <= entry.longest_us and left_us or nil
end

-- Looks in the dict for a refusal, and keeps it near: in this worker, for this age.
local function find_far(self, age, check)
    local until_us, longest_s = self.store.dict:get(entry_key(self, age, check))
    if not until_us then
        return nil
    end
    if self.near_count == MOST_NEAR then
        self.near, self.near_count = {}, 0
    end
    local entry = {
        rate = check.rate, until_us = until_us, longest_us = longest_s * 1000000,
        counts_until_us = check.until_us or huge,
    }
    self.near[check.key], self.near_count = entry, self.near_count + 1
    return entry
end

-- For how long a check is still refused, nil when it is not known to be.
local function left_us_of(self, age, check, now_us)
    local entry = self.near[check.key]
    local left_us = entry and entry.rate == check.rate and left_of(entry, now_us)
    if not left_us then
        entry = find_far(self, age, check)
        left_us = entry and left_of(entry, now_us)
    end
    return left_us
end

--- The refusal of a request of which a check is cached, with the limit that refuses longest, or nil.
-- Each limit that refuses is counted.
function _M:find(age, checks, metrics)
    local limit, rate, wait_us
    local now_us = nginx.now_us()
    for i = 1, #checks do
        local check = checks[i]
        local left_us = check.cost == 1 and not check.limit.shadow and left_us_of(self, age, check, now_us)
        if left_us then
            metrics:decision(check.limit, "limited")
            if not wait_us or left_us > wait_us then
                limit, rate, wait_us = check.limit, check.rate, left_us
            end
        end
    end
    return wait_us and decision.limited(limit, rate, wait_us)
end

--- Remembers which checks refused. sent_us is the local time before Redis was asked.
function _M:remember(age, checks, results, sent_us)
    for i = 1, #checks do
        local check, result = checks[i], results[i]
        local counts_us = min(result.wait_us, (check.until_us or huge) - sent_us)
        if not result.allowed and not check.limit.shadow and check.cost == 1 and counts_us > 0 then
            self.store:set(entry_key(self, age, check), sent_us + result.wait_us,
                ceil(counts_us / 1000) / 1000, ceil(result.wait_us / 1000000))
        end
    end
end

return _M
