package store

import (
	"context"
	"time"
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

// Delete deletes a bucket, and says whether there was one, within the timeout.
func Delete(ctx context.Context, r Redis, key string) (bool, error) {
	reply, err := r.about(ctx, key, "del", key)
	n, _ := reply.(int64)
	return n > 0, err
}
