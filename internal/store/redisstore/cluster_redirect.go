package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// redirect reads an answer that proves that nothing has run, and says where to ask next: MOVED and ASK
// name a node, TRYAGAIN means the same one. It is nil for any other answer.
func (c *cluster) redirect(err error, from *Server) (word string, next *Server) {
	var said redis.Error
	if err == nil || !errors.As(err, &said) {
		return "", nil
	}
	words := strings.Fields(said.Error())
	switch {
	case len(words) == 3 && words[0] == "MOVED":
		slot, err := strconv.Atoi(words[1])
		if err != nil {
			slot = -1
		}
		next = c.moved(slot, address(words[2], from))
		c.refresh()
		return "MOVED", next
	case len(words) == 3 && words[0] == "ASK":
		return "ASK", c.node(address(words[2], from))
	case len(words) > 0 && words[0] == "TRYAGAIN":
		return "TRYAGAIN", from
	}
	return "", nil
}

// heed looks anew who has which slots after an error that may come from another having them now.
func (c *cluster) heed(err error) {
	switch Kind(err) {
	case "timeout", "network", "pool", "breaker", "clusterdown", "readonly", "loading", "masterdown":
		c.refresh()
	}
}

// about is Redis.about: a command about one key, sent to whoever keeps its slot.
func (c *cluster) about(ctx context.Context, key string, words ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	n, err := c.owner(slotOf([]byte(key)), deadline)
	if err != nil {
		return nil, err
	}
	for hop, asking := 0, false; ; hop++ {
		cmd := redis.NewCmd(ctx, words...)
		pipe := n.client.Pipeline()
		if asking {
			pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		pipe.Process(ctx, cmd)
		_, failed := pipe.Exec(ctx)
		reply, err := cmd.Result()
		if err == nil {
			err = failed
		}
		word, next := c.redirect(err, n)
		switch {
		case err == redis.Nil:
			return nil, nil
		case next == nil || hop == maxHops:
			c.heed(err)
			return reply, sorted(err)
		}
		n, asking = next, word == "ASK"
	}
}

// runApart sends a call whose requests cannot share an EVALSHA: one for each slot, all in one write.
func (r *Server) runApart(ctx context.Context, c *call) {
	calls := r.divide(c)
	if unknown := r.pipeline(ctx, calls, false); len(unknown) > 0 {
		r.pipeline(ctx, unknown, true)
	}
	for _, one := range calls {
		c.answered = c.answered || one.answered
		c.late = c.late || one.late
		r.calls.Put(one)
	}
}

// divide makes a call for each slot, and for each request that goes apart.
func (r *Server) divide(c *call) (calls []*call) {
	members := slices.Clone(c.members)
	slices.SortStableFunc(members, func(p, q *pending) int { return p.slot - q.slot })
	var one *call
	for _, p := range members {
		if one == nil || p.apart || one.members[0].apart || one.members[0].slot != p.slot {
			one = r.calls.Get().(*call)
			one.begin(c.nowUS)
			calls = append(calls, one)
		}
		one.add(p)
	}
	return calls
}

// pipeline ends each call with what came of it, and returns those whose script Redis does not know.
func (r *Server) pipeline(ctx context.Context, calls []*call, whole bool) (unknown []*call) {
	pipe, sent := r.client.Pipeline(), make([]*redis.RawWriteToCmd, len(calls))
	for i, c := range calls {
		if c.members[0].asking {
			pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		sent[i] = redis.NewRawWriteToCmd(ctx, c, c.args(whole)...)
		pipe.Process(ctx, sent[i])
	}
	_, failed := pipe.Exec(ctx)
	for i, c := range calls {
		err := sent[i].Err()
		if err == nil && !c.began {
			err = failed // before anything was sent: go-redis does not tell the commands all of its errors
		}
		err = sorted(err)
		if Kind(err) == "noscript" {
			unknown = append(unknown, c)
		}
		c.end(err)
	}
	return unknown
}
