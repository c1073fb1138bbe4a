package main

import (
	"context"
	"slices"

	"authz/internal/decision"
	"authz/store"
)

// stores is where a service counts: in redis, or without one in memory.
type stores struct {
	memory *store.Memory
	redis  store.Redis // nil: none
	state  func(context.Context) (text string, well bool)
	close  func()
}

// openStores gives the service its stores.
func (f *serveCmd) openStores(s *service) (*stores, error) {
	memory := store.NewMemory(f.MemoryBuckets)
	s.local = memory
	s.metrics.watch("authz_memory_buckets", "Buckets that the in-memory store keeps.", func() float64 { return float64(memory.Len()) })
	s.metrics.watchTotal("authz_memory_buckets_dropped_total", "Buckets in use that the in-memory store dropped to make room: more of them than --memory-buckets are in use.",
		func() float64 { return float64(memory.Dropped()) })
	if f.Redis == "" {
		s.store = memory
		s.log.Info("no --redis: counts are this process's own, and lost when it ends", "memory_buckets", f.MemoryBuckets)
		return &stores{memory: memory, state: func(context.Context) (string, bool) { return "memory", true }, close: func() {}}, nil
	}
	show := s.metrics.breakers()
	var inspect *inspector // before anybody asks Redis, so that no breaker turns sooner
	redis, err := f.open(func(server string, err error) {
		show(err != nil && err != store.ErrRetired)
		if s.outage.turned(server, err); err == nil {
			go inspect.look() // another Redis may be there now
		}
	}, s.metrics.sent(), s.shadowAnswered)
	if err != nil {
		return nil, err
	}
	s.store = redis
	if f.RedisTimeout >= decision.LongestAnswer && slices.ContainsFunc(s.rules.Load().set.Limits(), decision.Holds) {
		s.log.Warn("--redis-timeout leaves no time to hold the answers of leaky buckets, which nginx awaits for 1s: want less than "+decision.LongestAnswer.String(),
			"redis_timeout", f.RedisTimeout)
	}
	o := f.doctor(f.RedisPrefix)
	o.Redis = redis
	inspect = newInspector(o, s)
	watching, end := context.WithCancel(context.Background())
	if err := inspect.begin(watching, &s.outage); err != nil {
		end()
		redis.Close()
		return nil, err
	}
	go s.outage.watch(watching, redis.Ping)
	go inspect.watchEvictions(watching)
	if f.RefusalsMax > 0 {
		s.remember(watching, f.RefusalsMax, redis, epochKey(f.RedisPrefix))
	}
	return &stores{memory: memory, redis: redis, state: func(ctx context.Context) (string, bool) { return s.stateOf(ctx, redis) },
		close: func() { end(); redis.Close() }}, nil
}

// stateOf is what can be said of Redis now.
func (s *service) stateOf(ctx context.Context, redis store.Redis) (text string, well bool) {
	err := redis.Unreachable()
	if err == nil {
		err = redis.Ping(ctx)
	}
	if err != nil {
		return "redis, no answer: " + store.Kind(err), false
	}
	if kind := s.outage.failing(); kind != "" {
		return "redis, cannot charge: " + kind, false
	}
	return "redis, answers", true
}
