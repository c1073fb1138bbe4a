package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"authz/limits"
	"authz/store"
)

// buckets is where buckets can be looked at and reset: those of a running service, or straight in Redis.
type buckets struct {
	set    *limits.Set
	memory *store.Memory // has them, or
	redis  store.Redis   // has
	epoch  string        // the key in Redis by which all who remember refusals forget them
	log    *slog.Logger  // of resets
}

// A bucket is what one holds, by a look that charges nothing.
type bucket struct {
	Limit     string `json:"limit"`
	Key       string `json:"key"` // its identity: no secret is in it
	RedisKey  string `json:"redis_key"`
	Algorithm string `json:"algorithm"`
	Rate      string `json:"rate"`
	Burst     int64  `json:"burst"`
	By        string `json:"by,omitempty"` // whose numbers these are, if not the limit's own
	Capacity  int64  `json:"capacity"`
	Remaining int64  `json:"remaining"` // requests of cost 1 that would be admitted now
	WaitUS    int64  `json:"wait_us"`   // until one is, 0: now
	ResetUS   int64  `json:"reset_us"`  // until it is as if never used, 0: it is
	Shadow    bool   `json:"shadow"`
}

// look is the bucket of a limit's key, as CheckOf reads it.
func (b *buckets) look(ctx context.Context, limit, key string) (bucket, error) {
	nowUS := time.Now().UnixMicro()
	c, err := b.set.CheckOf(limit, key, nowUS)
	if err != nil {
		return bucket{}, usageError{err}
	}
	var keeper store.Store = b.memory
	if b.redis != nil {
		keeper = b.redis
	}
	results, err := keeper.Take(ctx, 0, []limits.Check{c}, true, nil)
	if err != nil {
		return bucket{}, fmt.Errorf("limit.%s: %s: %s", limit, c.Key, advice(err))
	}
	rate, schedule := c.Limit.InForce(nowUS)
	found := bucket{Limit: limit, Key: string(c.Identity()), RedisKey: string(c.Key), Algorithm: c.Limit.Algorithm.String(),
		Rate: c.Rate.String(), Burst: c.Rate.Burst, Capacity: c.Rate.Size(c.Limit.Algorithm), Remaining: results[0].Remaining,
		ResetUS: results[0].ResetUS, Shadow: c.Limit.Shadow}
	if !results[0].Allowed {
		found.WaitUS = results[0].WaitUS
	}
	switch {
	case c.Rate != rate:
		found.By = "an override"
	case schedule != "":
		found.By = "schedule " + schedule
	}
	return found, nil
}

// A resetBucket is one that was deleted, and what it held.
type resetBucket struct {
	bucket
	Deleted bool `json:"deleted"` // there was one
}

// reset deletes a bucket: its key begins as never used. All who remember refusals forget them within a second. Who is
// whoever did it, for the log.
func (b *buckets) reset(ctx context.Context, limit, key, who string) (r resetBucket, err error) {
	if r.bucket, err = b.look(ctx, limit, key); err != nil {
		return r, err
	}
	if b.redis == nil {
		r.Deleted = b.memory.Delete([]byte(r.RedisKey))
	} else if r.Deleted, err = b.deleteInRedis(ctx, r.RedisKey); err != nil {
		return r, err
	}
	b.log.Info("bucket reset", "limit", r.Limit, "key", r.Key, "redis_key", r.RedisKey, "deleted", r.Deleted, "by", who)
	return r, nil
}

// deleteInRedis deletes the key, and then writes another epoch: nobody remembers anew what was said of a bucket that is
// gone.
func (b *buckets) deleteInRedis(ctx context.Context, key string) (existed bool, err error) {
	if existed, err = store.Delete(ctx, b.redis, key); err != nil {
		return false, fmt.Errorf("DEL %s: %s", key, advice(err))
	}
	if err = store.Set(ctx, b.redis, b.epoch, rand.Text(), epochLife); err != nil {
		return existed, fmt.Errorf("%s is deleted, but SET %s: %s: those who remember a refusal go on until it is over; reset once more", key, b.epoch, advice(err))
	}
	return existed, nil
}

// epochLife is how long an epoch is kept: the next one is another text, and who finds none changes nothing.
const epochLife = 24 * time.Hour

// A usageError is the caller's.
type usageError struct{ error }

// write tells it to people.
func (b *bucket) write(w io.Writer) {
	fmt.Fprintf(w, "limit.%s: %s, %s", b.Limit, b.Algorithm, b.Rate)
	if b.Burst > 0 {
		fmt.Fprintf(w, ", burst %d", b.Burst)
	}
	if b.By != "" {
		fmt.Fprintf(w, " (by %s)", b.By)
	}
	if b.Shadow {
		fmt.Fprint(w, ", shadow")
	}
	key := b.Key
	if key == "" {
		key = "everybody"
	}
	fmt.Fprintf(w, "\n  key    %s\n  redis  %s\n", key, b.RedisKey)
	switch {
	case b.ResetUS == 0:
		fmt.Fprintf(w, "  bucket as never used: %d of %d left\n", b.Remaining, b.Capacity)
	case b.WaitUS < 0:
		fmt.Fprintf(w, "  bucket 0 of %d left\n", b.Capacity)
	case b.WaitUS > 0:
		fmt.Fprintf(w, "  bucket %d of %d left, the next in %s, as never used in %s\n", b.Remaining, b.Capacity, micros(b.WaitUS), micros(b.ResetUS))
	default:
		fmt.Fprintf(w, "  bucket %d of %d left, as never used in %s\n", b.Remaining, b.Capacity, micros(b.ResetUS))
	}
}
