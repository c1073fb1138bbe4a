package store

import (
	"context"
	"fmt"
	"runtime"
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

	lanes    lanes
	pendings sync.Pool // of *pending
	calls    sync.Pool // of *call
}

// OpenRedis makes the client and connects to nothing yet: a Redis that is down is found out by
// Load, Ping and Take. The error says what is wrong with the options.
func OpenRedis(o RedisOptions) (*Redis, error) {
	options, err := o.client()
	if err != nil {
		return nil, err
	}
	r := &Redis{
		client:   redis.NewClient(options),
		timeout:  o.Timeout,
		take:     redisscripts.Take(),
		pendings: sync.Pool{New: newPending},
		calls:    sync.Pool{New: func() any { return new(call) }},
	}
	r.lanes.init()
	return r, nil
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
	return r.run(ctx, c)
}

// Get reads a text, "" if there is none, within the timeout.
func (r *Redis) Get(ctx context.Context, key string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	text, err := r.client.Get(ctx, key).Result()
	if err == redis.Nil {
		return "", nil
	}
	return text, err
}

// Close closes the connections.
func (r *Redis) Close() error { return r.client.Close() }

// Take is Store.Take in one EVALSHA, which it may share with others. Kind names its errors.
//
// It takes the timeout at most, or until the deadline of ctx; ctx is not heeded otherwise.
func (r *Redis) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
	if len(checks) == 0 {
		return dst, nil
	}
	now := r.lanes.now()
	deadline := now + r.timeout
	if d, ok := ctx.Deadline(); ok {
		deadline = min(deadline, d.Sub(r.lanes.start))
	}
	p := r.pendings.Get().(*pending)
	p.begin(checks, peek)
	p.deadline, p.sendBy = deadline, now+(deadline-now)/2
	if nowUS != 0 {
		r.sendAlone(p, nowUS)
	} else if err := r.join(p); err != nil {
		return dst, err
	}
	dst, err := p.results(checks, dst)
	r.pendings.Put(p)
	return dst, err
}

// sendAlone is for a request with a time of its own.
func (r *Redis) sendAlone(p *pending, nowUS int64) {
	c := r.calls.Get().(*call)
	c.begin(nowUS)
	c.add(p)
	r.send(c, p.deadline)
	r.calls.Put(c)
}

// join sends a request, alone if a lane is free, else with others. After an error p is not to be used.
func (r *Redis) join(p *pending) error {
	free, err := r.lanes.enter(p)
	if err != nil {
		return err
	}
	if !free {
		switch <-p.wake {
		case answered:
			return nil
		case late:
			return errLate
		case crowded:
			return errCrowded
		}
		runtime.Gosched() // whoever can run now may join
	}
	c := r.calls.Get().(*call)
	c.begin(0)
	c.add(p)
	r.lanes.gather(c)
	func() {
		defer r.lanes.leave(c)
		r.send(c, p.deadline)
	}()
	r.calls.Put(c)
	return nil
}

// send sends a call. It is sent once: after a timeout or a lost connection nobody knows whether it was
// charged, and a second send might charge it twice. NOSCRIPT alone proves that nothing ran, and is
// followed by the text of the script, which Redis knows from then on.
func (r *Redis) send(c *call, deadline time.Duration) {
	ctx, cancel := context.WithDeadline(context.Background(), r.lanes.start.Add(deadline))
	defer cancel()
	c.end(r.run(ctx, c))
}

func (r *Redis) run(ctx context.Context, c *call) error {
	err := r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args("evalsha", r.take.SHA)...))
	if Kind(err) == "noscript" {
		err = r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args("eval", r.take.Text)...))
	}
	if err != nil {
		return &kindError{Kind(err), err}
	}
	return nil
}
