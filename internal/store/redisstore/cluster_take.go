package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"authz/internal/store"
	"authz/limits"
)

// maxHops is how often a request is sent on.
const maxHops = 8

// errTorn is of a request with several keys in a slot that is being moved: some are here, some there,
// and nothing has run.
var errTorn = errors.New("the keys of the request are being moved")

// Take is Store.Take. A request whose keys share a slot is one call. Otherwise all parts are peeked at
// at the same time, and charged at the same time only if all of them allow.
func (c *cluster) Take(ctx context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	if len(checks) == 0 {
		return dst, nil
	}
	deadline := time.Now().Add(c.timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if slot := slotOf(checks[0].Key); !slices.ContainsFunc(checks[1:], func(k limits.Check) bool { return slotOf(k.Key) != slot }) {
		dst, err := c.ask(slot, nowUS, checks, peek, deadline, dst)
		if err != errTorn {
			return dst, err
		}
		return c.takeParts(oneByOne(checks), nowUS, peek, deadline, dst)
	}
	return c.takeParts(bySlot(checks), nowUS, peek, deadline, dst)
}

// takeParts decides a request in parts. After a peek that all parts allow, somebody else may be faster
// at one of them: then the request is refused, and the others have been charged. They are not refunded:
// a level that was read before others charged it must not be written back.
func (c *cluster) takeParts(parts []*part, nowUS int64, peek bool, deadline time.Time, dst []store.Result) ([]store.Result, error) {
	admitted, err := c.askParts(parts, nowUS, true, deadline)
	if err == nil && admitted && !peek {
		if admitted, err = c.askParts(parts, nowUS, false, deadline); !admitted {
			noHold(parts)
		}
	}
	if err != nil {
		return dst, err
	}
	before := len(dst)
	for _, t := range parts {
		dst = append(dst, t.results...) // for their number
	}
	for _, t := range parts {
		for i, place := range t.places {
			dst[before+place] = t.results[i]
		}
	}
	return dst, nil
}

// noHold: nobody waits in the queue of a leaky bucket for a request that is refused.
func noHold(parts []*part) {
	for _, t := range parts {
		for i := range t.results {
			if t.results[i].Allowed {
				t.results[i].WaitUS = 0
			}
		}
	}
}

// askParts asks for all parts at the same time, and says whether none refuses.
func (c *cluster) askParts(parts []*part, nowUS int64, peek bool, deadline time.Time) (admitted bool, err error) {
	var others sync.WaitGroup
	for _, t := range parts[1:] {
		others.Go(func() { c.askPart(t, nowUS, peek, deadline) })
	}
	c.askPart(parts[0], nowUS, peek, deadline)
	others.Wait()
	admitted = true
	for _, t := range parts {
		if t.err != nil {
			return false, t.err
		}
		admitted = admitted && t.admitted()
	}
	return admitted, nil
}

func (c *cluster) askPart(t *part, nowUS int64, peek bool, deadline time.Time) {
	t.results, t.err = c.ask(t.slot, nowUS, t.checks, peek, deadline, t.results[:0])
	if t.err != errTorn {
		return
	}
	singles := oneByOne(t.checks)
	if _, t.err = c.askParts(singles, nowUS, peek, deadline); t.err == nil {
		for _, one := range singles {
			t.results = append(t.results, one.results...)
		}
	}
}

// ask asks the node of a slot, and on to where that one says.
func (c *cluster) ask(slot int, nowUS int64, checks []limits.Check, peek bool, deadline time.Time, dst []store.Result) ([]store.Result, error) {
	n, err := c.owner(slot, deadline)
	if err != nil {
		return dst, err
	}
	p := c.pendings.Get().(*pending)
	p.begin(checks, peek)
	p.slot, p.apart, p.asking = slot, false, false
	for hop := 0; ; hop++ {
		now := n.lanes.now()
		p.err, p.reply, p.deadline = nil, p.reply[:0], deadline.Sub(n.lanes.start)
		p.half = (p.deadline - now) / 2
		if err := n.put(p, nowUS); err != nil {
			c.heed(err)
			return dst, err
		}
		word, next := c.redirect(p.err, n)
		if next == nil || hop == maxHops {
			break
		}
		switch word {
		case "MOVED", "ASK":
			n, p.asking = next, word == "ASK"
		case "TRYAGAIN":
			if p.apart && len(checks) > 1 {
				c.pendings.Put(p)
				return dst, errTorn
			}
			if p.apart {
				time.Sleep(min(time.Millisecond<<hop, time.Until(deadline)))
			}
		}
		p.apart = true
	}
	c.heed(p.err)
	dst, err = p.results(checks, dst)
	c.pendings.Put(p)
	return dst, err
}

// put asks a node, if its breaker lets it. After an error p is not to be used.
func (r *Server) put(p *pending, nowUS int64) error {
	if p.err = r.held(); p.err != nil {
		return nil
	}
	turn, err := r.breaker.begin()
	switch {
	case err != nil:
		p.err = err
		return nil
	case nowUS != 0:
		r.sendAt(p, nowUS)
	default:
		if err := r.join(p); err != nil {
			r.breaker.learn(turn, err)
			return err
		}
	}
	r.breaker.learn(turn, p.err)
	return nil
}
