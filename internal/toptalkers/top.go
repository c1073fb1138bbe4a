// Package toptalkers knows who is refused most, in bounded memory, and writes the lines of the refusal log.
package toptalkers

import (
	"cmp"
	"slices"
	"time"

	"authz/limits"
)

// sliceKeys is how many keys a slice of time knows, in each of refusedShards shards.
const sliceKeys = 64

const (
	minuteSlice = 10 * time.Second
	hourSlice   = 5 * time.Minute
)

// A slice is the refusals of a slice of time, by key: a Space-Saving sketch (Metwally, Agrawal, El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams", 2005). A key that it does not know takes the place of
// the one with the fewest, and that number with it. So a number is never too small, and too large by no more than was
// taken over; and who has more than 1/sliceKeys of a slice's refusals is in it.
type slice struct {
	at     int64 // which slice of time
	n      int   // keys in use
	hashes [sliceKeys]uint64
	keys   [sliceKeys]sliceKey
}

type sliceKey struct {
	limit       string
	key         []byte // its identity
	times, over int64  // over of them may be of others
}

// sliceAt is the slice for a time, begun anew if it was of an earlier one.
func sliceAt(ring []slice, at int64) *slice {
	s := &ring[uint64(at)%uint64(len(ring))]
	if s.at != at {
		s.at, s.n = at, 0
	}
	return s
}

// count counts a refusal.
func (s *slice) count(hash uint64, c *limits.Check) {
	for i, h := range s.hashes[:s.n] {
		if h == hash {
			s.keys[i].times++
			return
		}
	}
	i, taken := s.n, int64(0)
	if i == sliceKeys {
		i = s.least()
		taken = s.keys[i].times
	} else {
		s.n++
	}
	k := &s.keys[i]
	s.hashes[i] = hash
	*k = sliceKey{limit: c.Limit.Name, key: append(k.key[:0], c.Identity()...), times: taken + 1, over: taken}
}

func (s *slice) least() (least int) {
	for i := range s.keys[:s.n] {
		if s.keys[i].times < s.keys[least].times {
			least = i
		}
	}
	return least
}

// A Key is how often a key was refused: at least, and at most.
type Key struct {
	Limit   string `json:"limit"`
	Key     string `json:"key"` // its identity, or "everybody"
	Refused int64  `json:"refused_at_least"`
	AtMost  int64  `json:"refused_at_most"`
}

// Top is the n keys that were refused most in the last minute or hour, as the slices of it know them: a minute is 60 to
// 70 seconds, an hour 60 to 65 minutes.
func (r *Talkers) Top(span, now time.Duration, n int) []Key {
	var all []Key
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		if span == time.Hour {
			all = append(all, sum(s.hour[:], int64(now/hourSlice))...)
		} else {
			all = append(all, sum(s.minute[:], int64(now/minuteSlice))...)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Key) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.AtMost, a.AtMost), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// sum adds up the slices until at. A key that a full slice does not know may have been there as often as the least.
func sum(times []slice, at int64) []Key {
	type numbers struct{ times, over, unsure int64 }
	byKey := map[[2]string]*numbers{}
	var fullest int64 // what all may have been in
	for i := range times {
		s := &times[i]
		if s.at > at || s.at <= at-int64(len(times)) {
			continue
		}
		least := int64(0)
		if s.n == sliceKeys {
			least = s.keys[s.least()].times
			fullest += least
		}
		for _, k := range s.keys[:s.n] {
			id := [2]string{k.limit, string(k.key)}
			if byKey[id] == nil {
				byKey[id] = new(numbers)
			}
			byKey[id].times += k.times
			byKey[id].over += k.over
			byKey[id].unsure += least
		}
	}
	var all []Key
	for id, n := range byKey {
		key := Key{Limit: id[0], Key: id[1], Refused: n.times - n.over, AtMost: n.times + fullest - n.unsure}
		if key.Key == "" {
			key.Key = limits.Everybody
		}
		all = append(all, key)
	}
	return all
}

// Spans are the spans that can be asked for.
var Spans = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour}

const Most = refusedShards * sliceKeys
