package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A cluster is many servers. Each keeps the buckets of some slots, and has lanes and connections of its
// own: one that fails holds up nobody whose bucket is elsewhere.
//
// go-redis keeps the connections, and no more than that: its own cluster client sends again what may
// have been run.
type cluster struct {
	site     *site
	timeout  time.Duration
	turned   func(server string, err error) // nil: there are no breakers
	sent     func(requests int)             // see RedisOptions
	breaker  *breaker                       // in front of the question who has a slot
	pendings sync.Pool                      // of *pending

	owners [slotCount]atomic.Pointer[Server] // of the slots, as far as known; written under mu

	mu      sync.Mutex
	nodes   map[string]*Server      // by address
	masters []*Server               // those with slots
	retired map[*Server]*time.Timer // those without, until they are closed
	look    *look                   // the latest
	closed  bool
}

func (*cluster) IsCluster() bool { return true }

func newCluster(p *site, o Options) *cluster {
	c := &cluster{site: p, timeout: o.Timeout, turned: o.Turned, sent: o.Sent, pendings: sync.Pool{New: newPending},
		nodes: map[string]*Server{}, retired: map[*Server]*time.Timer{}}
	if o.Turned != nil {
		c.breaker = newBreaker(c.see, func(err error) { o.Turned("cluster", err) })
	}
	return c
}

// Close is Redis.Close. It holds up nobody else: to close a connection with TLS may take seconds.
func (c *cluster) Close() (err error) {
	c.breaker.stop()
	c.mu.Lock()
	c.closed = true
	nodes := slices.Collect(maps.Values(c.nodes))
	for n, timer := range c.retired {
		if timer.Stop() {
			nodes = append(nodes, n)
		}
	}
	c.mu.Unlock()
	for _, n := range nodes {
		err = cmp.Or(err, n.Close())
	}
	return err
}

// node is the node at an address.
func (c *cluster) node(addr string) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.find(addr)
}

// moved is that node, which has a slot now.
func (c *cluster) moved(slot int, addr string) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.find(addr)
	if slot >= 0 && slot < slotCount {
		c.owners[slot].Store(n)
	}
	return n
}

// find is node, under c.mu.
func (c *cluster) find(addr string) *Server {
	n := c.nodes[addr]
	if n == nil {
		n = newServer(c.site.at(addr), c.timeout, c.sent)
		if c.turned != nil {
			n.breaker = newBreaker(func(ctx context.Context) error { return c.ping(ctx, n) }, func(err error) { c.turned(addr, err) })
		}
		c.nodes[addr] = n
		if c.closed {
			n.Close()
		}
	}
	return n
}

// address is where a node is that another names, which may leave out what is the same for itself.
func address(addr string, from *Server) string {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return addr
	}
	host, port := strings.Trim(addr[:i], "[]"), addr[i+1:]
	fromHost, fromPort, _ := net.SplitHostPort(from.Addr())
	if port == "0" { // of one that speaks nothing but TLS
		port = fromPort
	}
	return net.JoinHostPort(cmp.Or(host, fromHost), port)
}

// ping is what the breaker in front of a node asks. A node without slots is not waited for: nobody asks it.
func (c *cluster) ping(ctx context.Context, n *Server) error {
	c.refresh()
	if !slices.Contains(c.known(), n) {
		return ErrRetired
	}
	return n.Ping(ctx)
}

// owner is the node of a slot. Only as long as it is not known does this wait, until the deadline.
func (c *cluster) owner(slot int, deadline time.Time) (*Server, error) {
	if n := c.owners[slot].Load(); n != nil {
		return n, nil
	}
	turn, err := c.breaker.begin()
	if err != nil {
		return nil, err
	}
	n, err := c.findOwner(slot, deadline)
	c.breaker.learn(turn, err)
	return n, err
}

func (c *cluster) findOwner(slot int, deadline time.Time) (*Server, error) {
	l := c.refresh()
	select {
	case <-l.over:
	case <-time.After(time.Until(deadline)):
		return nil, errLate
	}
	n := c.owners[slot].Load()
	switch {
	case n != nil:
		return n, nil
	case l.err != nil:
		return nil, sorted(l.err)
	}
	return nil, &kindError{"clusterdown", fmt.Errorf("CLUSTERDOWN no node of the cluster has slot %d", slot)}
}

// Servers are those that have slots.
func (c *cluster) Servers(ctx context.Context) ([]*Server, error) {
	if known := c.known(); len(known) > 0 {
		c.refresh()
		return known, nil
	}
	err := c.see(ctx)
	if known := c.known(); len(known) > 0 {
		return known, nil
	}
	return nil, err
}

func (c *cluster) known() []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.masters)
}

// Load is Redis.Load.
func (c *cluster) Load(ctx context.Context) error { return c.each(ctx, (*Server).Load) }

// Ping is Redis.Ping.
func (c *cluster) Ping(ctx context.Context) error { return c.each(ctx, (*Server).Ping) }

// each does something with all of them at the same time.
func (c *cluster) each(ctx context.Context, do func(*Server, context.Context) error) error {
	servers, err := c.Servers(ctx)
	errs := make(chan error, len(servers))
	for _, n := range servers {
		go func() {
			err := do(n, ctx)
			if err != nil {
				err = fmt.Errorf("%s: %w", n.Addr(), err)
			}
			errs <- err
		}()
	}
	for range servers {
		err = cmp.Or(err, <-errs)
	}
	return err
}

// Unreachable is why a breaker is open, in front of one of them or of all.
func (c *cluster) Unreachable() error {
	err := c.breaker.cause()
	for _, n := range c.known() {
		err = cmp.Or(err, n.Unreachable())
	}
	return err
}
