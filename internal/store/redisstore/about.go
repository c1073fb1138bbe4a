package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/limits"
)

// Get reads a text of Redis, "" if there is none, within the timeout.
func Get(ctx context.Context, r Redis, key string) (string, error) {
	reply, err := r.about(ctx, key, "get", key)
	text, _ := reply.(string)
	return text, err
}

// Set writes a text that Redis keeps for life, in whole milliseconds, within the timeout.
func Set(ctx context.Context, r Redis, key, text string, life time.Duration) error {
	_, err := r.about(ctx, key, "set", key, text, "px", life.Milliseconds())
	return err
}

// SetNew writes a text that Redis keeps for life, in whole milliseconds, within the timeout, unless the key has one.
func SetNew(ctx context.Context, r Redis, key, text string, life time.Duration) error {
	_, err := r.about(ctx, key, "set", key, text, "px", life.Milliseconds(), "nx")
	if errors.Is(err, redis.Nil) {
		return nil
	}
	return err
}

// Delete deletes a bucket, and says whether there was one, within the timeout. A life of nothing deletes a key like DEL,
// and takes no right that charging does not.
func Delete(ctx context.Context, r Redis, key []byte) (bool, error) {
	return some(r.about(ctx, string(key), "pexpire", key, 0))
}

// Exists says whether the bucket of a check is there, within the timeout. One that is may read as never used.
func Exists(ctx context.Context, r Redis, c *limits.Check) (bool, error) {
	if c.Limit.Algorithm == limits.SlidingWindow {
		return some(r.about(ctx, string(c.Key), "zcard", c.Key))
	}
	text, err := r.about(ctx, string(c.Key), "get", c.Key)
	return text != nil, err
}

// some says whether a reply is a number of one at least.
func some(reply any, err error) (bool, error) {
	n, _ := reply.(int64)
	return n > 0, err
}

// LoadScripts loads them with time for a connection that is slow to come.
func LoadScripts(r Redis) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return r.Load(ctx)
}
