package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/limits"
	"authz/redisscripts"
)

// Redis keeps the buckets in a Redis server that all instances share. Now is that server's clock.
type Redis struct {
	client  *redis.Client
	timeout time.Duration
	take    redisscripts.Script
	calls   sync.Pool // of *call
}

// OpenRedis makes the client and connects to nothing yet: a Redis that is down is found out by
// Load, Ping and Take. The error says what is wrong with the options.
func OpenRedis(o RedisOptions) (*Redis, error) {
	options, err := o.client()
	if err != nil {
		return nil, err
	}
	return &Redis{
		client:  redis.NewClient(options),
		timeout: o.Timeout,
		take:    redisscripts.Take(),
		calls:   sync.Pool{New: func() any { return new(call) }},
	}, nil
}

// Load loads every script into Redis. Take does without, but has to send the text then, once.
func (r *Redis) Load(ctx context.Context) error {
	for _, s := range redisscripts.All() {
		sha, err := r.client.ScriptLoad(ctx, s.Text).Result()
		if err != nil {
			return fmt.Errorf("load script %s: %w", s.Name, err)
		}
		if sha != s.SHA {
			return fmt.Errorf("load script %s: Redis calls it %s, want %s", s.Name, sha, s.SHA)
		}
	}
	return nil
}

// Ping asks whether Redis answers within the timeout. It calls the script for no request, so that an
// account that may Take may Ping.
func (r *Redis) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c := r.calls.Get().(*call)
	defer r.calls.Put(c)
	c.begin(0)
	_, err := r.run(ctx, c)
	return err
}

// Close closes the connections.
func (r *Redis) Close() error { return r.client.Close() }

// Take is Store.Take in one EVALSHA. Kind names its errors.
func (r *Redis) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
	if len(checks) == 0 {
		return dst, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c := r.calls.Get().(*call)
	defer r.calls.Put(c)
	c.begin(nowUS)
	c.add(checks, peek)
	reply, err := r.run(ctx, c)
	if err != nil {
		return dst, err
	}
	return readReply(reply, checks, dst)
}

// run sends a call. It is sent once: after a timeout or a lost connection nobody knows whether it
// was charged, and a second send might charge it twice. NOSCRIPT alone proves that nothing ran, and
// is followed by the text of the script, which Redis knows from then on.
func (r *Redis) run(ctx context.Context, c *call) (any, error) {
	reply, err := r.send(ctx, c.args("evalsha", r.take.SHA))
	if Kind(err) == "noscript" {
		return r.send(ctx, c.args("eval", r.take.Text))
	}
	return reply, err
}

func (r *Redis) send(ctx context.Context, args []any) (any, error) {
	cmd := redis.NewCmd(ctx, args...)
	if err := r.client.Process(ctx, cmd); err != nil {
		return nil, &kindError{Kind(err), err}
	}
	return cmd.Val(), nil
}
