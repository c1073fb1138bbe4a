--- The refusal cache: whoever was refused is refused again without asking Redis, until the wait that Redis
-- named is over. Nothing that arrives meanwhile can shorten that wait: a refusal charges nobody.
--
-- Only a cost of 1 is cached and answered. An entry holds for the numbers that refused, until a schedule may
-- change them (they may come back, but others may have charged the key meanwhile), and for an age: a
-- number that goes up and never comes back, when the policy changes and when the epoch does, which is the
-- text of the Redis key PREFIX:v1:epoch. Whoever resets a key writes a new epoch, and is heard; that Redis
-- lost it is a change too. One worker reads it twice a second; a second after the last reading Redis is
-- asked.
--
-- The dict has what all workers know. Each worker keeps near what it found there, and looks for the age
-- when its clock, which has milliseconds, has moved.

local decision = require "resty.authz.decision"
local nginx = require "resty.authz.nginx"
local redis = require "resty.authz.redis"

local ceil, floor, huge, min = math.ceil, math.floor, math.huge, math.min
local now = nginx.now

local READ_S, KNOWN_S = 0.5, 1
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
    for _, name in ipairs {"age", "epoch", "known", "lease", "version", "refused"} do
        keys[name] = "\0" .. name .. "|" .. scope .. key_prefix .. "|"
    end
    return keys
end

-- Begins an age if the text is not what it was. The first one, or the first after the dict dropped it, is
-- the time in milliseconds, which no age before has reached.
local function note(self, keys, name, text)
    local dict = self.store.dict
    if dict:get(keys[name]) ~= text then
        dict:incr(keys.age, 1, floor(ngx.now() * 1000))
        self.store:set(keys[name], text)
    end
end

-- Reads the epoch, unless another worker did so half a second ago.
local function read_epoch(premature, self)
    local keys = self.keys
    if premature or not self.store.dict:add(keys.lease, true, READ_S * 0.9) then
        return
    end
    local epoch = self.redis:get(self.epoch_key)
    if epoch ~= nil then
        note(self, keys, "epoch", epoch or "")
        self.store:set(keys.known, true, KNOWN_S)
    end
end

-- Begins with a set that this worker has not seen, and to watch the epoch, once.
local function begin(self, set)
    self.set, self.looked_s, self.keys = set, 0, dict_keys(self.store.scope, set.key_prefix)
    self.epoch_key = set.key_prefix .. ":v1:epoch"
    note(self, self.keys, "version", set.version)
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
        begin(self, set)
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
