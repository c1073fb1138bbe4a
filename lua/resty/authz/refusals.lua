--- The refusal cache: whoever was refused is refused again without asking Redis, until the wait that Redis
-- named is over. Nothing that arrives meanwhile can shorten that wait: a refusal charges nobody.
--
-- Only a cost of 1 is cached and answered. An entry holds for the numbers that refused, so that an edited
-- limit forgets it; and for an epoch, the text of the Redis key PREFIX:v1:epoch, so that whoever resets a
-- key writes another epoch there and is heard. One worker reads it twice a second; an epoch that was not
-- read for a second is not known, and then Redis is asked.

local decision = require "resty.authz.decision"
local redis = require "resty.authz.redis"

local ceil = math.ceil

local EPOCH, LEASE = "\0epoch", "\0epoch-lease" -- no bucket has such a key
local READ_S, KNOWN_S = 0.5, 1

local _M = {}
_M.__index = _M

--- The cache in the dict of a shdict store. epoch_key() is the Redis key of the epoch.
function _M.new(store, client, epoch_key)
    return setmetatable({store = store, redis = client, epoch_key = epoch_key, watching = false}, _M)
end

-- Reads the epoch, unless another worker did so half a second ago.
local function read_epoch(premature, self)
    if premature or not self.store.dict:add(LEASE, true, READ_S * 0.9) then
        return
    end
    local epoch = self.redis:get(self.epoch_key())
    if epoch ~= nil then
        self.store:set(EPOCH, epoch or "", KNOWN_S)
    end
end

--- The epoch, or nil when it is not known. The first call in a worker begins to watch it.
function _M:epoch()
    if not self.watching then
        self.watching = true
        ngx.timer.at(0, read_epoch, self)
        ngx.timer.every(READ_S, read_epoch, self)
    end
    return self.store.dict:get(EPOCH)
end

-- The numbers of a rate, as a part of a key. A rate keeps its text.
local text_of = setmetatable({}, {__mode = "k"})

local function entry_key(epoch, check)
    local text = text_of[check.rate]
    if not text then
        text = "|" .. table.concat(redis.words(check.limit, check.rate), ":") .. "|"
        text_of[check.rate] = text
    end
    return "\0refused|" .. epoch .. text .. check.key
end

--- The refusal of a request of which a check is cached, with the limit that refuses longest, or nil.
-- Each limit that refuses is counted.
function _M:find(epoch, checks, metrics)
    local limit, rate, wait_us
    for i = 1, #checks do
        local check = checks[i]
        if check.cost == 1 and not check.limit.shadow then
            local until_us, longest_s = self.store.dict:get(entry_key(epoch, check))
            local left_us = until_us and until_us - self.store.now_us() or 0
            -- Longer than it was at first: the clock was set back, and nobody is locked out for it.
            if left_us > 0 and left_us <= longest_s * 1000000 then
                metrics:decision(check.limit, "limited")
                if not wait_us or left_us > wait_us then
                    limit, rate, wait_us = check.limit, check.rate, left_us
                end
            end
        end
    end
    return wait_us and decision.limited(limit, rate, wait_us)
end

--- Remembers which checks refused. sent_us is the local time before Redis was asked.
function _M:remember(epoch, checks, results, sent_us)
    for i = 1, #checks do
        local check, result = checks[i], results[i]
        if not result.allowed and not check.limit.shadow and check.cost == 1 and result.wait_us > 0 then
            self.store:set(entry_key(epoch, check), sent_us + result.wait_us,
                ceil(result.wait_us / 1000) / 1000, ceil(result.wait_us / 1000000))
        end
    end
end

return _M
