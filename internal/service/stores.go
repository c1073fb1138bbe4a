package service

import (
	"context"
	"slices"

	"authz/internal/decision"
	"authz/internal/doctor"
	"authz/internal/store"
	"authz/internal/store/redisstore"
)

// stores is where a service counts: in redis, or without one in memory.
type stores struct {
	Memory *store.Memory
	Redis  redisstore.Redis // nil: none
	place  []any            // for the log
	close  func()
}

// openStores gives the service its stores.
func (s *Service) openStores(o *Options) error {
	memory := store.NewMemory(o.MemoryBuckets)
	s.local = memory
	s.Metrics.watch("authz_memory_buckets", "Buckets that the in-memory store keeps.", func() float64 { return float64(memory.Len()) })
	s.Metrics.watchTotal("authz_memory_buckets_dropped_total", "Buckets in use that the in-memory store dropped to make room: more of them than --memory-buckets are in use.",
		func() float64 { return float64(memory.Dropped()) })
	if o.Redis.URL == "" {
		s.store = memory
		s.Log.Info("no --redis: counts are this process's own, and lost when it ends", "memory_buckets", o.MemoryBuckets)
		s.Stores = stores{Memory: memory, place: []any{"store", "memory"}, close: func() {}}
		return nil
	}
	if o.Redis.Timeout >= decision.LongestAnswer && slices.ContainsFunc(s.Rules.Load().Set.Limits(), decision.Holds) {
		s.Log.Warn("--redis-timeout leaves no time to hold the answers of leaky buckets, which nginx awaits for 1s: want less than "+decision.LongestAnswer.String(),
			"redis_timeout", o.Redis.Timeout)
	}
	watching, end := context.WithCancel(context.Background())
	redis, err := s.openRedis(watching, o)
	if err != nil {
		end()
		return err
	}
	s.store = redis
	if o.RefusalsMax > 0 {
		s.remember(watching, o.RefusalsMax, redis, EpochKey(o.Prefix))
	}
	s.Stores = stores{Memory: memory, Redis: redis, place: []any{"store", "redis", "redis", redisstore.Redacted(o.Redis.URL)},
		close: func() { end(); redis.Close() }}
	return nil
}

// openRedis opens Redis, and has it watched as long as ctx lasts.
func (s *Service) openRedis(ctx context.Context, o *Options) (redisstore.Redis, error) {
	show := s.Metrics.breakers()
	var inspect *inspector // before anybody asks Redis, so that no breaker turns sooner
	at := o.Redis
	at.Sent, at.Shadow = s.Metrics.sent(), s.shadowAnswered
	at.Turned = func(server string, err error) {
		show(err != nil && err != redisstore.ErrRetired)
		if s.outage.turned(server, err); err == nil {
			go inspect.look() // another Redis may be there now
		}
	}
	redis, err := redisstore.Open(at)
	if err != nil {
		return nil, err
	}
	inspect = newInspector(doctor.Options{Redis: redis, At: at, Prefix: o.Prefix}, s)
	if err := inspect.begin(ctx, &s.outage); err != nil {
		redis.Close()
		return nil, err
	}
	go s.outage.watch(ctx, redis.Ping)
	go inspect.watchEvictions(ctx)
	return redis, nil
}

// State is what can be said of the store now.
func (s *Service) State(ctx context.Context) (text string, well bool) {
	redis := s.Stores.Redis
	if redis == nil {
		return "memory", true
	}
	err := redis.Unreachable()
	if err == nil {
		err = redis.Ping(ctx)
	}
	if err != nil {
		return "redis, no answer: " + redisstore.Kind(err), false
	}
	if kind := s.outage.failing(); kind != "" {
		return "redis, cannot charge: " + kind, false
	}
	return "redis, answers", true
}
