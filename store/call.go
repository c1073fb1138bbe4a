package store

import (
	"slices"

	"authz/limits"
)

// A call is one call of the script take: its arguments, in memory that is used again.
type call struct {
	keys    []keyArg
	numbers []int64 // ARGV
	words   []any   // the whole command; points into the fields above
	head    [2]string
	numkeys int
}

// A keyArg is a key that go-redis writes without a copy of its own.
type keyArg []byte

func (k *keyArg) MarshalBinary() ([]byte, error) { return *k, nil }

func (c *call) begin(nowUS int64) {
	c.keys = c.keys[:0]
	c.numbers = append(c.numbers[:0], nowUS)
}

// add adds a request. Its keys are not copied.
func (c *call) add(checks []limits.Check, peek bool) {
	n := int64(len(checks))
	if peek {
		n = -n
	}
	c.numbers = append(c.numbers, n)
	for i := range checks {
		k := &checks[i]
		algorithm := int64(k.Limit.Algorithm)
		if k.Limit.Shadow {
			algorithm = -algorithm
		}
		c.keys = append(c.keys, k.Key)
		switch k.Limit.Algorithm {
		case limits.TokenBucket, limits.LeakyBucket:
			c.numbers = append(c.numbers, algorithm, k.Rate.N, k.Rate.W, k.Rate.Capacity, k.Cost)
		case limits.FixedWindow, limits.SlidingWindow, limits.SlidingCounter:
			c.numbers = append(c.numbers, algorithm, k.Rate.Count, k.Rate.WindowUS, k.Rate.OffsetUS, k.Cost)
		default:
			panic(unknown(k))
		}
	}
}

// args is the command: EVALSHA and a SHA, or EVAL and a text. It is valid until the next begin.
func (c *call) args(command, script string) []any {
	c.head = [2]string{command, script}
	c.numkeys = len(c.keys)
	c.words = append(slices.Grow(c.words[:0], 3+len(c.keys)+len(c.numbers)), c.head[0], &c.head[1], &c.numkeys)
	for i := range c.keys {
		c.words = append(c.words, &c.keys[i])
	}
	for i := range c.numbers {
		c.words = append(c.words, &c.numbers[i])
	}
	return c.words
}

// readReply appends the results of one request to dst. A reply that is not exactly what the script
// writes is an error, and never taken for an answer.
func readReply(reply any, checks []limits.Check, dst []Result) ([]Result, error) {
	flat, ok := reply.([]any)
	if !ok {
		return dst, malformed("%T, want numbers", reply)
	}
	if want := 1 + 4*len(checks); len(flat) != want {
		return dst, malformed("%d numbers, want %d", len(flat), want)
	}
	var row [4]int64
	status, ok := flat[0].(int64)
	switch {
	case !ok || status < -1 || status > 1:
		return dst, malformed("status %v", flat[0])
	case status == -1:
		return dst, errWrongType
	}
	before, admitted := len(dst), int64(1)
	for i := range checks {
		for j := range row {
			if row[j], ok = flat[1+4*i+j].(int64); !ok {
				return dst[:before], malformed("%T, want a number", flat[1+4*i+j])
			}
		}
		if row[0] < 0 || row[0] > 1 || row[1] < 0 || row[2] < never || row[3] < 0 {
			return dst[:before], malformed("row %v", row)
		}
		dst = append(dst, Result{row[0] == 1, row[1], row[2], row[3]})
		if row[0] == 0 && !checks[i].Limit.Shadow {
			admitted = 0
		}
	}
	if status != admitted {
		return dst[:before], malformed("status %d, want %d by the rows", status, admitted)
	}
	return dst, nil
}
