package main

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// hundred is the limit by which the memory of a bucket is measured.
var hundred = rate{100, time.Second}

// bucketBytes finds what a bucket takes.
func (s *stage) bucketBytes() ([]finding, error) {
	ours, theirs, err := s.redisBytes()
	if err != nil {
		return nil, err
	}
	memory, err := s.memoryBytes()
	if err != nil {
		return nil, err
	}
	difference, own := float64(ours-theirs), bound{value: 96, unit: "bytes"}
	more := bound{value: 24, unit: "bytes"}
	return []finding{
		{what: "a bucket in the memory store, without its key", bound: own, value: memory, low: memory, high: memory, rounds: 1},
		{what: fmt.Sprintf("a bucket in Redis (%d) less redis_rate's of the same name (%d)", ours, theirs),
			bound: more, value: difference, low: difference, high: difference, rounds: 1},
	}, nil
}

// redisBytes is MEMORY USAGE of a used up bucket, ours and redis_rate's, under one name.
func (s *stage) redisBytes() (ours, theirs int64, err error) {
	const key, name = "ip=203.0.113.9", "authz:v1:{ip=203.0.113.9}:api:tb"
	c := s.redis.client
	n, w := lowestTerms(int64(hundred.count), hundred.period.Microseconds())
	const now, checks, tokenBucket = 0, 1, 1
	var usage *redis.IntCmd
	// In one go: the key lives for a second only.
	_, err = c.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
		p.Eval(s.ctx, redisscripts.Take().Text, []string{name}, now, checks, tokenBucket, n, w, int64(hundred.count)*w, hundred.count)
		usage = p.MemoryUsage(s.ctx, name)
		p.Del(s.ctx, name)
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	ours = usage.Val()
	limit := redis_rate.Limit{Rate: hundred.count, Burst: hundred.count, Period: hundred.period}
	if _, err := redis_rate.NewLimiter(c).AllowN(s.ctx, key, limit, hundred.count); err != nil {
		return 0, 0, err
	}
	_, err = c.TxPipelined(s.ctx, func(p redis.Pipeliner) error {
		p.Rename(s.ctx, "rate:"+key, name)
		usage = p.MemoryUsage(s.ctx, name)
		p.Del(s.ctx, name)
		return nil
	})
	return ours, usage.Val(), err
}

// memoryBytes is the heap of a memory store by buckets, less the key, when as many clients have come as
// it has room for by default.
func (s *stage) memoryBytes() (float64, error) {
	file, err := s.write("limits.toml", oneLimit(hundred))
	if err != nil {
		return 0, err
	}
	set, err := limits.Load("authz", file)
	if err != nil {
		return 0, err
	}
	const buckets, nowUS = 1_000_000, 1_767_225_600_000_000
	attrs, match := limits.Attrs{Headers: make([][]byte, len(set.HeaderNames()))}, new(limits.Match)
	var results []store.Result
	before, keys := heap(), 0
	memory := store.NewMemory(buckets)
	for i := range buckets {
		attrs.IP = netip.AddrFrom4([4]byte{203, byte(i >> 16), byte(i >> 8), byte(i)})
		set.Match(&attrs, match)
		if results, err = memory.Take(context.Background(), nowUS, match.Checks, false, results[:0]); err != nil {
			return 0, err
		}
		keys += len(match.Checks[0].Key)
	}
	used, held := heap()-before, memory.Len()
	runtime.KeepAlive(memory)
	if held < buckets*98/100 {
		return 0, fmt.Errorf("the memory store holds %d buckets, want %d", held, buckets)
	}
	return float64(used)/float64(held) - float64(keys)/buckets, nil
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
