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

// Redis keeps the buckets in a Redis server that all instances share, or in those of a cluster. Now is
// that server's clock.
type Redis struct {
	cluster   *cluster // its nodes are a Redis each; the rest is for a single server, which is most often all there is
	sentinels *sentinels
	client    *redis.Client
	timeout   time.Duration
	take      redisscripts.Script

	breaker  *breaker // nil: there is none
	lanes    lanes
	pendings sync.Pool // of *pending
	calls    sync.Pool // of *call
}

// OpenRedis makes the client and connects to nothing yet: a Redis that is down is found out by
// Load, Ping and Take. The error says what is wrong with the options.
func OpenRedis(o RedisOptions) (*Redis, error) {
	p, err := o.site()
	switch {
	case err != nil:
		return nil, err
	case p.cluster:
		return &Redis{cluster: newCluster(p, o)}, nil
	}
	options := p.at("")
	var s *sentinels
	if p.master != "" {
		if s, err = newSentinels(p, o); err != nil {
			return nil, err
		}
		options.Dialer, options.Addr = s.dial, p.master
	}
	r := newServer(options, o.Timeout)
	r.sentinels = s
	if o.Turned != nil {
		r.breaker = newBreaker(r.Ping, func(err error) { o.Turned(r.Addr(), err) })
	}
	return r, nil
}

func newServer(options *redis.Options, timeout time.Duration) *Redis {
	r := &Redis{
		client:   redis.NewClient(options),
		timeout:  timeout,
		take:     redisscripts.Take(),
		pendings: sync.Pool{New: newPending},
		calls:    sync.Pool{New: func() any { return new(call) }},
	}
	r.lanes.init()
	return r
}

// Load loads every script into Redis. Take does without, but has to send the text then, once.
func (r *Redis) Load(ctx context.Context) error {
	if r.cluster != nil {
		return r.cluster.each(ctx, (*Redis).Load)
	}
	for _, s := range redisscripts.All() {
		sha, err := r.client.ScriptLoad(ctx, s.Text).Result()
		if err != nil {
			return fmt.Errorf("load script %s: %w", s.Name, sorted(err))
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
	if r.cluster != nil {
		return r.cluster.each(ctx, (*Redis).Ping)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c := r.calls.Get().(*call)
	defer r.calls.Put(c)
	c.begin(0)
	return r.run(ctx, c)
}

// Get reads a text, "" if there is none, within the timeout.
func (r *Redis) Get(ctx context.Context, key string) (string, error) {
	if r.cluster != nil {
		return r.cluster.get(ctx, key)
	}
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	text, err := r.client.Get(ctx, key).Result()
	if err == redis.Nil {
		return "", nil
	}
	return text, sorted(err)
}

// Servers are the servers that keep the buckets: r itself, or the masters of the cluster.
func (r *Redis) Servers(ctx context.Context) ([]*Redis, error) {
	if r.cluster != nil {
		return r.cluster.servers(ctx)
	}
	return []*Redis{r}, nil
}

// Addr is where a server is: host:port, the path of a socket, or the name that Sentinels know.
func (r *Redis) Addr() string { return r.client.Options().Addr }

// Do sends a command to a server, not to a cluster, and returns its reply as go-redis does, within the
// timeout.
func (r *Redis) Do(ctx context.Context, words ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	reply, err := r.client.Do(ctx, words...).Result()
	return reply, sorted(err)
}

// Unreachable is why a breaker is open, nil while all are closed or there is none.
func (r *Redis) Unreachable() error {
	if r.cluster != nil {
		return r.cluster.unreachable()
	}
	return r.breaker.cause()
}

// Close closes the connections.
func (r *Redis) Close() error {
	if r.cluster != nil {
		return r.cluster.close()
	}
	if r.sentinels != nil {
		defer r.sentinels.close()
	}
	r.breaker.stop()
	return r.client.Close()
}

// Take is Store.Take in one EVALSHA, which it may share with others. Kind names its errors.
//
// It takes the timeout at most, or until the deadline of ctx; ctx is not heeded otherwise.
func (r *Redis) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
	switch {
	case len(checks) == 0:
		return dst, nil
	case r.cluster != nil:
		return r.cluster.take(ctx, nowUS, checks, peek, dst)
	}
	turn, err := r.breaker.begin()
	if err != nil {
		return dst, err
	}
	dst, err = r.ask(ctx, nowUS, checks, peek, dst)
	r.breaker.learn(turn, err)
	return dst, err
}

func (r *Redis) ask(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
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
	if c.mixed {
		r.runApart(ctx, c)
		return
	}
	c.end(r.run(ctx, c))
}

func (r *Redis) run(ctx context.Context, c *call) error {
	err := r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args("evalsha", r.take.SHA)...))
	if Kind(err) == "noscript" {
		err = r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args("eval", r.take.Text)...))
	}
	return sorted(err)
}
