--- The calls to Redis that a worker has in flight: bounded by their number, so that no connection is made anew
-- under load, and by their weight, so that Redis is never busy for a large part of the timeout. The requests
-- beyond that wait in a queue, each until its own deadline.
--
-- A weight of 1 takes Redis 2 to 5 us: a check, or a unit of cost in a log. The service has the same, in
-- internal/store/redisstore/batch.go.

local nginx = require "resty.authz.nginx"
local semaphore = require "ngx.semaphore"

local floor, max, pairs = math.floor, math.max, pairs
local now = nginx.now

local MOST_WEIGHT = 1024 -- of all workers of an nginx: some 4 ms of Redis
local LEAST_WEIGHT = 128 -- of a worker, however many there are
local MOST_QUEUE = 4096
local CROWD = 8 -- more requests than this are a crowd
local LOST_S = 1 -- a call that has not come back so long after its deadline never will: its request was aborted

local _M = {}
_M.__index = _M

--- The flight of a worker, of at most so many calls.
function _M.new(most)
    return setmetatable({
        most = most, calls = 0, weight = 0, flying = {}, queue = {}, head = 1, tail = 0, waiting = 0,
        answered = 0, answered_s = 0, -- calls that Redis has answered, and when the latest
        crowded_s = 0, -- when a request was late in a crowd, the latest time
    }, _M)
end

-- The room that a worker has; how many workers there are is known when they run.
local function most_weight(self)
    local most = self.most_weight
    if not most then
        most = max(LEAST_WEIGHT, floor(MOST_WEIGHT / (ngx.worker.count() or 1)))
        self.most_weight = most
    end
    return most
end

-- A call alone is always let through, however heavy it is.
local function fits(self, weight)
    return self.calls == 0 or self.calls < self.most and self.weight + weight <= most_weight(self)
end

local function begin(self, call)
    self.calls, self.weight = self.calls + 1, self.weight + call.weight
    self.flying[call] = true
end

-- Takes calls out that will never come back.
local function reclaim(self)
    local now_s = now()
    if now_s == self.reclaimed_s then
        return
    end
    self.reclaimed_s = now_s
    for call in pairs(self.flying) do
        if now_s > call.until_s + LOST_S then
            self.flying[call] = nil
            self.calls, self.weight = self.calls - 1, self.weight - call.weight
        end
    end
end

--- enter waits for room for a call of this weight, until then and no longer. It returns the call, which is to
-- leave again, or nil, the error's text and kind.
function _M:enter(weight, until_s)
    local call = {weight = weight, until_s = until_s, answered = self.answered, half_s = (until_s - now()) / 2}
    if self.waiting == 0 and fits(self, weight) then
        begin(self, call)
        return call
    end
    reclaim(self)
    if self.waiting == 0 and fits(self, weight) then
        begin(self, call)
        return call
    elseif self.waiting >= MOST_QUEUE then
        return nil, MOST_QUEUE .. " requests wait for Redis, no more can", "queue"
    end
    call.room = semaphore.new(0)
    self.tail, self.waiting = self.tail + 1, self.waiting + 1
    self.queue[self.tail] = call
    call.room:wait(max(0.001, until_s - now()))
    if self.flying[call] then
        return call
    end
    local lives = self:lives(call)
    call.gone, self.waiting = true, self.waiting - 1
    if lives then
        return nil, "Redis has not answered so many in time", "queue"
    end
    return nil, "timeout", "timeout"
end

--- Whether Redis need not hang though a call was late. It has answered others since the call came, and lately: within
-- half of the time that the call had. Or the call was late in a crowd, which clients can bring about: then the breaker
-- asks Redis whether it hangs.
function _M:lives(call)
    local now_s = now()
    if self.calls + self.waiting > CROWD then
        self.crowded_s = now_s
    end
    return self.answered > call.answered and now_s - self.answered_s < call.half_s
        or now_s - self.crowded_s < 2 * call.half_s
end

--- leave gives the room of a call to those that wait. answered: Redis has sent a reply, or an error of its own.
function _M:leave(call, answered)
    if answered then
        self.answered, self.answered_s = self.answered + 1, now()
    end
    if self.flying[call] then
        self.flying[call] = nil
        self.calls, self.weight = self.calls - 1, self.weight - call.weight
    end
    while self.head <= self.tail do
        local next_call = self.queue[self.head]
        if not next_call.gone and not fits(self, next_call.weight) then
            return
        end
        self.queue[self.head] = nil
        self.head = self.head + 1
        if not next_call.gone then
            self.waiting = self.waiting - 1
            begin(self, next_call)
            next_call.room:post(1)
        end
    end
    self.head, self.tail = 1, 0
end

return _M
