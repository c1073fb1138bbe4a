package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// The scripts that a call may be of: take, or for a single check the script of its algorithm, which is a
// fifth cheaper for Redis.
var (
	take    = redisscripts.Take()
	singles = func() (of [limits.SlidingCounter + 1]redisscripts.Script) {
		for _, a := range limits.Algorithms {
			of[a] = redisscripts.Named(a.String())
		}
		return of
	}()
)

// A pending is one request on its way to Redis. It has its own copy of the keys: whoever asked may
// leave at the deadline and use the memory of its checks again, while the call is still being sent.
type pending struct {
	keys     []keyArg // in text
	text     []byte
	numbers  []int64       // its part of the ARGV of take
	weight   int           // of its work in Redis: 1 a check, and in a log 1 for each unit of cost
	single   single        // it, if it is one check
	reply    []int64       // its part of the reply: the status, and four numbers a check
	err      error         // of the whole call
	deadline time.Duration // by lanes.now
	half     time.Duration // of the time that it has in all

	// In a cluster.
	slot   int  // of all its keys
	apart  bool // it needs an EVALSHA of its own
	asking bool // and ASKING before that

	wake   chan signal // tells the caller, once, what has become of it
	left   bool        // its caller has given up; under lanes.mu
	waited bool        // for a lane
	heard  int64       // lanes.heard when it began to
}

// A single is what the script of an algorithm is asked. Limits and rates do not change, and outlive the request.
type single struct {
	limit *limits.Limit
	rate  *limits.Rate
	cost  int64
	peek  bool
}

func newPending() any { return &pending{wake: make(chan signal, 1)} }

// A keyArg is a key that go-redis writes without a copy of its own.
type keyArg []byte

func (k *keyArg) MarshalBinary() ([]byte, error) { return *k, nil }

func (p *pending) begin(checks []limits.Check, peek bool) {
	p.keys, p.text, p.numbers, p.reply = p.keys[:0], p.text[:0], p.numbers[:0], p.reply[:0]
	p.err, p.weight = nil, len(checks)
	n, bytes := int64(len(checks)), 0
	if peek {
		n = -n
	}
	for i := range checks {
		bytes += len(checks[i].Key)
	}
	p.text = slices.Grow(p.text, bytes) // keys are parts of it: it must not move
	p.numbers = append(p.numbers, n)
	for i := range checks {
		k := &checks[i]
		start := len(p.text)
		p.text = append(p.text, k.Key...)
		p.keys = append(p.keys, p.text[start:])
		algorithm := int64(k.Limit.Algorithm)
		if k.Limit.Shadow {
			algorithm = -algorithm
		}
		switch k.Limit.Algorithm {
		case limits.TokenBucket, limits.LeakyBucket:
			p.numbers = append(p.numbers, algorithm, k.Rate.N, k.Rate.W, k.Rate.Capacity, k.Cost, k.Rate.Cold())
		case limits.FixedWindow, limits.SlidingWindow, limits.SlidingCounter:
			if k.Limit.Algorithm == limits.SlidingWindow {
				p.weight += int(k.Cost)
			}
			p.numbers = append(p.numbers, algorithm, k.Rate.Count, k.Rate.WindowUS, k.Rate.OffsetUS, k.Cost, 0)
		default:
			panic(store.Unknown(k))
		}
	}
	if len(checks) == 1 {
		p.single = single{checks[0].Limit, checks[0].Rate, checks[0].Cost, peek}
	}
}

// results appends the results of the request to dst. What the script does not write is an error, and
// never taken for an answer.
func (p *pending) results(checks []limits.Check, dst []store.Result) ([]store.Result, error) {
	switch {
	case p.err != nil:
		return dst, p.err
	case len(p.reply) != 1+4*len(checks):
		return dst, malformed("%d numbers for a request, want %d", len(p.reply), 1+4*len(checks))
	}
	status := p.reply[0]
	if status == -1 {
		return dst, errWrongType
	}
	before, admitted := len(dst), int64(1)
	for i := range checks {
		row := p.reply[1+4*i : 5+4*i]
		if row[0] < 0 || row[0] > 1 || row[1] < 0 || row[2] < store.Never || row[3] < 0 {
			return dst[:before], malformed("row %v", row)
		}
		dst = append(dst, store.Result{Allowed: row[0] == 1, Remaining: row[1], WaitUS: row[2], ResetUS: row[3]})
		if row[0] == 0 && !checks[i].Limit.Shadow {
			admitted = 0
		}
	}
	if status != admitted {
		return dst[:before], malformed("status %d, want %d by the rows", status, admitted)
	}
	return dst, nil
}

// A call is one call of a script: the requests in it, and the memory to send them and to read the reply.
type call struct {
	members []*pending
	keys    int
	weight  int
	mixed   bool // they cannot all be in one EVALSHA
	nowUS   int64
	single  bool   // it is one check, and the script that of its algorithm
	script  string // SHA or text
	rows    []row
	words   []any // the whole command; points into the fields above and into the members

	term     *term
	heard    int64 // lanes.heard when it was sent
	answered bool  // Redis has sent a reply, or an error of its own
	late     bool  // it has not in time

	// What is still to come of the reply.
	began  bool
	member int
}

func (c *call) begin(nowUS int64) {
	c.nowUS, c.keys, c.weight, c.mixed, c.answered, c.late = nowUS, 0, 0, false, false, false
	clear(c.members)
	c.members = c.members[:0]
}

func (c *call) add(p *pending) {
	c.mixed = c.mixed || p.asking || len(c.members) > 0 && (p.apart || c.members[0].apart || p.slot != c.members[0].slot)
	c.members = append(c.members, p)
	c.keys += len(p.keys)
	c.weight += p.weight
}

// args is the command: EVALSHA and a SHA, or EVAL and the whole text. It is valid until the next begin.
func (c *call) args(whole bool) []any {
	c.began, c.member = false, 0
	c.single = c.keys == 1
	script := &take
	if c.single {
		script = &singles[c.members[0].single.limit.Algorithm]
	}
	c.words, c.script = append(c.words[:0], "evalsha", &c.script, &c.keys), script.SHA
	if whole {
		c.words[0], c.script = "eval", script.Text
	}
	for _, p := range c.members {
		for i := range p.keys {
			c.words = append(c.words, &p.keys[i])
		}
	}
	if c.single {
		c.addSingle(&c.members[0].single)
	} else {
		c.addAll()
	}
	return c.words
}

// addSingle adds the ARGV of an algorithm's script, which is quickest without what it need not read.
func (c *call) addSingle(s *single) {
	third := &s.rate.OffsetUS
	if s.limit.Algorithm.IsBucket() {
		third = &s.rate.Burst
	}
	c.words = append(c.words, &s.rate.Count, &s.rate.WindowUS, pair(third, s.rate.Initial), &s.cost)
	if c.nowUS != 0 || s.peek {
		c.words = append(c.words, &c.nowUS)
	}
	if s.peek {
		c.words = append(c.words, 1)
	}
}

// addAll adds the ARGV of take.
func (c *call) addAll() {
	c.words = append(c.words, &c.nowUS)
	c.rows = c.rows[:0]
	for _, p := range c.members {
		c.words = append(c.words, &p.numbers[0])
		for i := 1; i < len(p.numbers); i += len(row{}) {
			c.addRow((*row)(p.numbers[i:]))
		}
	}
}

// end gives every member the error of the call.
func (c *call) end(err error) {
	c.answered, c.late = err == nil, false
	if err != nil {
		var said redis.Error
		c.answered, c.late = errors.As(err, &said), Kind(err) == "timeout"
		if c.single && Kind(err) == "wrongtype" {
			err = errWrongType
		}
	}
	for _, p := range c.members {
		p.err = err
	}
}

// A row is the numbers of a check: its algorithm, three of its limit, the cost, and what is used of a token
// bucket that was never used.
type row [6]int64

// sameAs is how the script is told that a check has the same numbers as the first, the second, ... of
// those that wrote their own.
var sameAs = [...]int64{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21}

// addRow writes the numbers of a check. In a call most are the same few.
func (c *call) addRow(r *row) {
	for i := range min(len(c.rows), len(sameAs)) {
		if c.rows[i] == *r {
			c.words = append(c.words, &sameAs[i])
			return
		}
	}
	c.rows = append(c.rows, *r)
	c.words = append(c.words, &r[0], &r[1], &r[2], pair(&r[3], r[5]), &r[4])
}

// pair is n, and after a slash what belongs to it, if there is something.
func pair(n *int64, to int64) any {
	if to == 0 {
		return n
	}
	return fmt.Sprintf("%d/%d", *n, to)
}

// numbers is how long the reply has to be.
func (c *call) numbers() int {
	if c.single {
		return 4
	}
	return len(c.members) + 4*c.keys
}

// Write takes the reply as go-redis reads it: one line, its end, the next. It gives every member its
// own numbers. An error ends the reading; go-redis closes the connection then, unless Redis said it.
func (c *call) Write(line []byte) (int, error) {
	switch {
	case line[0] == '\r':
	case !c.began && line[0] == '-':
		return 0, replyError(line[1:])
	case !c.began && line[0] == '*':
		n, err := strconv.Atoi(string(line[1:]))
		if err != nil || n != c.numbers() {
			return 0, malformed("%s numbers, want %d", line[1:], c.numbers())
		}
		c.began = true
	case !c.began || line[0] != ':':
		return 0, malformed("%q, want numbers", line)
	default:
		n, err := strconv.ParseInt(string(line[1:]), 10, 64)
		if err != nil {
			return 0, malformed("%q, want a number", line)
		}
		p := c.members[c.member]
		switch {
		case len(p.reply) > 0:
		case c.single && (n == 0 || n == 1): // whether it is allowed; take would say a status before that
			if p.single.limit.Shadow {
				p.reply = append(p.reply, 1)
			} else {
				p.reply = append(p.reply, n)
			}
		case c.single || n < -1 || n > 1:
			return 0, malformed("status %d", n)
		}
		p.reply = append(p.reply, n)
		if len(p.reply) == 1+4*len(p.keys) {
			c.member++
		}
	}
	return len(line), nil
}
