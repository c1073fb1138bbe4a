// Package redisstore keeps the buckets in Redis: one server, a cluster, or the master that Sentinels name. It bounds the
// calls in flight, and has a breaker in front of each server.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// Redis keeps the buckets in a Redis server that all instances share, or in those of a cluster. Now is
// the clock of whichever server keeps a bucket.
type Redis interface {
	store.Store

	// Load loads every script. Take does without, but has to send the text then, once.
	Load(context.Context) error

	// Ping asks whether Redis answers within the timeout. It calls the script for no request, so that an
	// account that may Take may Ping.
	Ping(context.Context) error

	// about sends a command about one key, within the timeout. It is sent once, but after MOVED and ASK. The reply
	// is nil where Redis has none.
	about(ctx context.Context, key string, words ...any) (any, error)

	// IsCluster says whether it is a cluster.
	IsCluster() bool

	// Servers are the servers that keep the buckets: a single one, or the masters of the cluster.
	Servers(context.Context) ([]*Server, error)

	// Unreachable is why a breaker is open, nil while all are closed or there is none.
	Unreachable() error

	// Close closes the connections.
	Close() error
}

// A Server is a single server, or a node of a cluster.
type Server struct {
	sentinels *sentinels
	client    *redis.Client
	timeout   time.Duration
	sent      func(requests int) // nil: nobody counts

	breaker  *breaker // nil: there is none
	hold     hold
	lanes    lanes
	pendings sync.Pool // of *pending
	calls    sync.Pool // of *call
}

// Open makes the client and connects to nothing yet: a Redis that is down is found out by
// Load, Ping and Take. The error says what is wrong with the options.
func Open(o Options) (Redis, error) {
	r, err := openRedis(o)
	if err == nil && o.Shadow != nil {
		r = newShadowed(r, o.Shadow)
	}
	return r, err
}

func openRedis(o Options) (Redis, error) {
	p, err := o.site()
	switch {
	case err != nil:
		return nil, err
	case p.cluster:
		return newCluster(p, o), nil
	}
	options := p.at("")
	var s *sentinels
	if p.master != "" {
		if s, err = newSentinels(p, o); err != nil {
			return nil, err
		}
		options.Dialer, options.Addr = s.dial, p.master
	}
	r := newServer(options, o.Timeout, o.Sent)
	r.sentinels = s
	if o.Turned != nil {
		r.breaker = newBreaker(r.Ping, func(err error) { o.Turned(r.Addr(), err) })
	}
	return r, nil
}

func newServer(options *redis.Options, timeout time.Duration, sent func(int)) *Server {
	r := &Server{
		client:   redis.NewClient(options),
		timeout:  timeout,
		sent:     sent,
		pendings: sync.Pool{New: newPending},
		calls:    sync.Pool{New: func() any { return new(call) }},
	}
	r.lanes.init()
	return r
}

// Load is Redis.Load. The longest script, take, comes last: a Redis that wants a password hangs up on it
// before it is sent, and answers the others.
func (r *Server) Load(ctx context.Context) error {
	for _, s := range slices.Backward(redisscripts.All()) {
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

// Ping is Redis.Ping.
func (r *Server) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	c := r.calls.Get().(*call)
	defer r.calls.Put(c)
	c.begin(0)
	return r.run(ctx, c)
}

// about is Redis.about.
func (r *Server) about(ctx context.Context, _ string, words ...any) (any, error) {
	reply, err := r.Do(ctx, words...)
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// Servers is r itself.
func (r *Server) Servers(context.Context) ([]*Server, error) { return []*Server{r}, nil }

func (*Server) IsCluster() bool { return false }

// Addr is where a server is: host:port, the path of a socket, or the name that Sentinels know.
func (r *Server) Addr() string { return r.client.Options().Addr }

// Do sends a command, and returns its reply as go-redis does, within the timeout.
func (r *Server) Do(ctx context.Context, words ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	reply, err := r.client.Do(ctx, words...).Result()
	return reply, sorted(err)
}

// Unreachable is Redis.Unreachable.
func (r *Server) Unreachable() error { return r.breaker.cause() }

// Close is Redis.Close.
func (r *Server) Close() error {
	if r.sentinels != nil {
		defer r.sentinels.close()
	}
	r.breaker.stop()
	return r.client.Close()
}

// Take is Store.Take in one EVALSHA, which it may share with others. Kind names its errors.
//
// It takes the timeout at most, or until the deadline of ctx; ctx is not heeded otherwise.
func (r *Server) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	if len(checks) == 0 {
		return dst, nil
	}
	if err := r.held(); err != nil {
		return dst, err
	}
	turn, err := r.breaker.begin()
	if err != nil {
		return dst, err
	}
	dst, err = r.ask(ctx, nowUS, checks, peek, dst)
	r.breaker.learn(turn, err)
	return dst, err
}

func (r *Server) ask(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	now := r.lanes.now()
	deadline := now + r.timeout
	if d, ok := ctx.Deadline(); ok {
		deadline = min(deadline, d.Sub(r.lanes.start))
	}
	p := r.pendings.Get().(*pending)
	p.begin(checks, peek)
	p.deadline, p.half = deadline, (deadline-now)/2
	if nowUS != 0 {
		r.sendAt(p, nowUS)
	} else if err := r.join(p); err != nil {
		return dst, err
	}
	dst, err := p.results(checks, dst)
	r.pendings.Put(p)
	return dst, err
}

// sendAt is for a request with a time of its own.
func (r *Server) sendAt(p *pending, nowUS int64) {
	ctx, cancel := context.WithDeadline(context.Background(), r.lanes.start.Add(p.deadline))
	defer cancel()
	c := r.calls.Get().(*call)
	c.begin(nowUS)
	c.add(p)
	r.send(ctx, c)
	r.calls.Put(c)
}

// join sends a request, alone if a lane is free, else with others. After an error p is not to be used.
func (r *Server) join(p *pending) error {
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
		r.send(c.term, c)
	}()
	r.calls.Put(c)
	return nil
}

// send sends a call. It is sent once: after a timeout or a lost connection nobody knows whether it was
// charged, and a second send might charge it twice. NOSCRIPT alone proves that nothing ran, and is
// followed by the text of the script, which Redis knows from then on.
func (r *Server) send(ctx context.Context, c *call) {
	if r.sent != nil {
		r.sent(len(c.members))
	}
	if c.mixed {
		r.runApart(ctx, c)
		return
	}
	c.end(r.run(ctx, c))
}

func (r *Server) run(ctx context.Context, c *call) error {
	err := r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args(false)...))
	if Kind(err) == "noscript" {
		err = r.client.Process(ctx, redis.NewRawWriteToCmd(ctx, c, c.args(true)...))
	}
	err = sorted(err)
	r.hold.learn(err)
	return err
}
