package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A look is one reading of the slots, which others may wait for.
type look struct {
	over  chan struct{} // closed
	ended time.Time     // under cluster.mu; zero: it is under way
	err   error         // when it is over
}

const (
	lookTime = 500 * time.Millisecond // for a look, at least: no request waits for it longer than it has time
	restful  = 100 * time.Millisecond // between two looks
	farewell = time.Minute            // of a node without slots, at which requests may be under way
)

// refresh looks anew who has which slots, soon enough. The look that it returns is the one that was
// begun last.
func (c *cluster) refresh() *look {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.look; l != nil && (l.ended.IsZero() || time.Since(l.ended) < restful) {
		return l
	}
	l := &look{over: make(chan struct{})}
	c.look = l
	go func() {
		err := c.read()
		c.mu.Lock()
		l.ended, l.err = time.Now(), err
		c.mu.Unlock()
		close(l.over)
	}()
	return l
}

// see waits for the look that was begun last. It is what the breaker in front of all nodes asks.
func (c *cluster) see(ctx context.Context) error {
	l := c.refresh()
	select {
	case <-l.over:
		return sorted(l.err)
	case <-ctx.Done():
		return sorted(ctx.Err())
	}
}

// A view is what a node says of the slots.
type view struct {
	from  *Server
	slots []redis.ClusterSlot
	epoch int64 // grows whenever a slot has a new owner; -1: the node does not see a cluster that works
	err   error
}

// read asks some nodes who has which slots. Who knows of the latest change is believed: a node that was
// away hears of it within seconds. Those that do not answer are not waited for, once one has.
//
// If none has, the error is of one that is out of reach, if there is one: that others say no does not mean
// that the next look costs no time.
func (c *cluster) read() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(c.timeout, lookTime))
	defer cancel()
	some := c.some()
	said := make(chan view, len(some))
	for _, n := range some {
		go func() { said <- n.view(ctx) }()
	}
	var enough <-chan time.Time
	var best *view
	failed := func(one error) {
		if err == nil || reached(err) && !reached(one) {
			err = one
		}
	}
	for range some {
		select {
		case <-enough:
			c.set(best.slots, best.from)
			return nil
		case v := <-said:
			switch {
			case v.err != nil:
				failed(fmt.Errorf("%s: %w", v.from.Addr(), v.err))
				continue
			case len(v.slots) == 0:
				failed(&kindError{"clusterdown", fmt.Errorf("CLUSTERDOWN %s knows of no slots", v.from.Addr())})
				continue
			case best == nil || v.epoch > best.epoch:
				best = &v
			}
			if enough == nil {
				enough = time.After(grace(c.timeout))
			}
		}
	}
	if best == nil {
		return err
	}
	c.set(best.slots, best.from)
	return nil
}

func (r *Server) view(ctx context.Context) view {
	slots := redis.NewClusterSlotsCmd(ctx, "cluster", "slots") // Redis 6 has nothing newer
	info := redis.NewStringCmd(ctx, "cluster", "info")
	pipe := r.client.Pipeline()
	pipe.Process(ctx, slots)
	pipe.Process(ctx, info)
	_, failed := pipe.Exec(ctx)
	v := view{from: r, slots: slots.Val(), err: slots.Err()}
	if v.err == nil && info.Err() == nil {
		v.err = failed // before anything was sent
	}
	// An account that may not ask for all there is to know has the epoch 0.
	for line := range strings.Lines(info.Val()) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name {
		case "cluster_state":
			if value != "ok" {
				v.epoch = -1
				return v
			}
		case "cluster_current_epoch":
			v.epoch, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return v
}

// some are nodes to be asked: three that have slots, and two of those that the URL names, or all of those
// as long as none is known that has slots.
func (c *cluster) some() (nodes []*Server) {
	add := func(n *Server) {
		if !slices.Contains(nodes, n) {
			nodes = append(nodes, n)
		}
	}
	masters := c.known()
	for _, i := range rand.Perm(len(masters))[:min(3, len(masters))] {
		add(masters[i])
	}
	named := c.site.addrs
	n := len(named)
	if len(masters) > 0 {
		n = min(2, n)
	}
	for _, i := range rand.Perm(len(named))[:n] {
		add(c.node(named[i]))
	}
	return nodes
}

// set takes over who has which slots, as a node says.
func (c *cluster) set(ranges []redis.ClusterSlot, from *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var owners [slotCount]*Server
	c.masters = nil
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			continue
		}
		n := c.find(address(r.Nodes[0].Addr, from))
		for slot := max(r.Start, 0); slot <= min(r.End, slotCount-1); slot++ {
			owners[slot] = n
		}
		if !slices.Contains(c.masters, n) {
			c.masters = append(c.masters, n)
		}
	}
	for slot, n := range owners {
		c.owners[slot].Store(n)
	}
	for addr, n := range c.nodes {
		if !slices.Contains(c.masters, n) && !slices.Contains(c.site.addrs, addr) {
			delete(c.nodes, addr)
			c.retire(n)
		}
	}
}

// retire has a node leave, under c.mu. If it has slots again, it comes anew.
func (c *cluster) retire(n *Server) {
	c.retired[n] = time.AfterFunc(farewell, func() {
		c.mu.Lock()
		delete(c.retired, n)
		c.mu.Unlock()
		n.Close() // which may take seconds
	})
}
