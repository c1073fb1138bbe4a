package admin

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"time"

	"authz/internal/doctor"
	"authz/internal/human"
	"authz/internal/service"
	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
)

// Buckets is where buckets can be looked at and reset: those of a running service, or straight in Redis.
type Buckets struct {
	Set    *limits.Set
	memory *store.Memory    // has them, or
	Redis  redisstore.Redis // has
	Epoch  string           // the key in Redis by which all who remember refusals forget them
	Log    *slog.Logger     // of resets
}

// A Bucket is what one holds, by a look that charges nothing.
type Bucket struct {
	Limit     string `json:"limit"`
	Key       string `json:"key"` // its identity: no secret is in it
	RedisKey  string `json:"redis_key"`
	Exists    bool   `json:"exists"` // or it reads as never used
	Algorithm string `json:"algorithm"`
	Rate      string `json:"rate"`
	Burst     int64  `json:"burst"`
	By        string `json:"by,omitempty"` // whose numbers these are, if not the limit's own
	Capacity  int64  `json:"capacity"`
	Remaining int64  `json:"remaining"` // requests of cost 1 that would be admitted now
	WaitUS    int64  `json:"wait_us"`   // until one is, 0: now
	ResetUS   int64  `json:"reset_us"`  // until all of it would be, 0: all is
	Shadow    bool   `json:"shadow"`
}

// Look is the bucket of a limit's key, as CheckOf reads it.
func (b *Buckets) Look(ctx context.Context, limit, key string) (Bucket, error) {
	found, c, err := b.find(limit, key)
	if err == nil {
		err = b.peek(ctx, &c, &found)
	}
	return found, err
}

// find is what can be said of a bucket without looking into it.
func (b *Buckets) find(limit, key string) (found Bucket, c limits.Check, err error) {
	nowUS := time.Now().UnixMicro()
	if c, err = b.Set.CheckOf(limit, key, nowUS); err != nil {
		return found, c, UsageError{err}
	}
	return told(&c, nowUS), c, nil
}

// told is what a check says of its bucket.
func told(c *limits.Check, nowUS int64) Bucket {
	found := Bucket{Limit: c.Limit.Name, Key: string(c.Identity()), RedisKey: string(c.Key), Algorithm: c.Limit.Algorithm.String(),
		Rate: c.Rate.String(), Burst: c.Rate.Burst, Capacity: c.Rate.Size(c.Limit.Algorithm), Shadow: c.Limit.Shadow}
	switch rate, schedule := c.Limit.InForce(nowUS); {
	case c.Rate != rate:
		found.By = "an override"
	case schedule != "":
		found.By = "schedule " + schedule
	}
	return found
}

// peek looks into it.
func (b *Buckets) peek(ctx context.Context, c *limits.Check, found *Bucket) (err error) {
	var keeper store.Store = b.memory
	if b.Redis != nil {
		keeper = b.Redis
	}
	results, err := keeper.Take(ctx, 0, []limits.Check{*c}, true, nil)
	switch {
	case err != nil:
	case b.Redis != nil:
		found.Exists, err = redisstore.Exists(ctx, b.Redis, c)
	default:
		found.Exists = b.memory.Exists(c.Key)
	}
	if err != nil {
		return fmt.Errorf("limit.%s: %s cannot be read: %s", found.Limit, c.Key, failure(err))
	}
	r := results[0]
	if found.Remaining, found.ResetUS = r.Remaining, r.ResetUS; !r.Allowed {
		found.WaitUS = r.WaitUS
	}
	return nil
}

// failure is the kind of a failure of Redis, and what there is to say about it.
func failure(err error) string { return redisstore.Kind(err) + ": " + doctor.Advice(err) }

// A ResetBucket is one that was deleted, and what it held.
type ResetBucket struct {
	Bucket
	Deleted bool `json:"deleted"` // there was one
}

// Reset deletes a bucket: its key begins as never used. All who remember refusals forget them within a second. Who is
// whoever did it, for the log, which has a line of whatever was tried.
//
// What this process has counted by itself while Redis was away is deleted too, also if Redis is still away.
func (b *Buckets) Reset(ctx context.Context, limit, key, who string) (r ResetBucket, err error) {
	found, c, err := b.find(limit, key)
	if r.Bucket = found; err != nil {
		return r, err
	}
	err = b.peek(ctx, &c, &r.Bucket)
	local := b.memory != nil && b.memory.Delete(c.Key)
	switch {
	case b.Redis == nil:
		r.Deleted = local
	case err == nil:
		r.Deleted, err = b.deleteInRedis(ctx, &c)
	}
	line := []any{"limit", r.Limit, "key", r.Key, "redis_key", r.RedisKey, "deleted", r.Deleted, "by", who}
	if err == nil {
		b.Log.Info("bucket reset", line...)
		return r, nil
	}
	if local {
		err = fmt.Errorf("%w; what this instance has counted by itself is deleted", err)
	}
	b.Log.Warn("bucket not reset", append(line, "deleted_here", local, "error", err.Error())...)
	return r, err
}

// deleteInRedis deletes the key, and then writes another epoch: nobody remembers anew what was said of a bucket that is
// gone.
func (b *Buckets) deleteInRedis(ctx context.Context, c *limits.Check) (deleted bool, err error) {
	if deleted, err = redisstore.Delete(ctx, b.Redis, c.Key); err != nil {
		return false, fmt.Errorf("limit.%s: %s cannot be deleted: %s", c.Limit.Name, c.Key, failure(err))
	}
	if err = redisstore.Set(ctx, b.Redis, b.Epoch, rand.Text(), service.EpochLife); err != nil {
		return deleted, fmt.Errorf("limit.%s: %s is deleted, but %s cannot be written, so that remembered refusals go on until they are over: "+
			"reset once more: %s", c.Limit.Name, c.Key, b.Epoch, failure(err))
	}
	return deleted, nil
}

// A UsageError is the caller's.
type UsageError struct{ error }

// Write tells it to people.
func (b *Bucket) Write(w io.Writer) {
	fmt.Fprintf(w, "limit.%s: %s", b.Limit, b.Numbers())
	if b.By != "" {
		fmt.Fprintf(w, " (by %s)", b.By)
	}
	if b.Shadow {
		fmt.Fprint(w, ", shadow")
	}
	key := b.Key
	if key == "" {
		key = limits.Everybody
	}
	fmt.Fprintf(w, "\n  key    %s\n  redis  %s\n", key, b.RedisKey)
	fmt.Fprint(w, "  bucket ")
	if !b.Exists {
		fmt.Fprint(w, "as never used: ")
	}
	fmt.Fprintf(w, "%d of %d left", b.Remaining, b.Capacity)
	if b.WaitUS > 0 {
		fmt.Fprintf(w, ", the next in %s", human.Micros(b.WaitUS))
	}
	if b.Exists && b.ResetUS > 0 {
		fmt.Fprintf(w, ", %s in %s", b.rested(), human.Micros(b.ResetUS))
	}
	fmt.Fprintln(w)
}

// Numbers are those that it is counted by.
func (b *Bucket) Numbers() string { return human.Limit(b.Algorithm, b.Rate, b.Burst) }

// rested is what a bucket is when nobody uses it for long enough.
func (b *Bucket) rested() string {
	if b.Algorithm == limits.TokenBucket.String() {
		return "full"
	}
	return "as never used"
}
