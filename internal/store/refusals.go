package store

import (
	"hash/maphash"
	"math"
	"sync/atomic"
	"time"

	"authz/limits"
)

// Refusals remembers who was refused, and until when: no request of cost 1 can be admitted before the
// wait that another of cost 1 was told is over, whatever else arrives. So the answer is known, and an
// attack that goes on costs Redis nothing.
//
// A refusal is remembered with the numbers of its limit: an edited limit is asked about again, and so is
// one that a schedule gives other numbers, also when it has the first ones again: other instances may have
// charged the key in between.
//
// It holds a bounded number of refusals, in shards as Memory does, and forgets those first that end first.
//
// Times are of a clock that nobody sets: how long it is since some moment, the same in all calls.
type Refusals struct {
	seed   maphash.Seed
	shards []shard      // an entry's bucket has the numbers and when the wait is over; it expires when it counts no more
	forgot atomic.Int64 // microseconds: what was sent until then counts no more
}

// NewRefusals makes room for max refusals. One takes about 96 bytes and its key.
func NewRefusals(max int) *Refusals {
	if max < 1 {
		panic("BUG: store.NewRefusals wants room for 1 refusal at least")
	}
	seed := maphash.MakeSeed()
	r := &Refusals{seed: seed, shards: newShards(seed, max)}
	r.forgot.Store(math.MinInt64)
	return r
}

// numbersOf is a digest of all of a limit that an answer depends on, but its algorithm, which the key names.
func (r *Refusals) numbersOf(rate *limits.Rate) int64 {
	numbers := [...]int64{rate.Count, rate.WindowUS, rate.OffsetUS, rate.Burst, rate.Initial}
	return int64(maphash.Comparable(r.seed, numbers))
}

func (r *Refusals) shardOf(key []byte) (s *shard, hash uint64) {
	hash = maphash.Bytes(r.seed, key)
	return &r.shards[hash>>32&uint64(len(r.shards)-1)], hash
}

// WaitUS is for how long a check would still be refused, 0 if nothing is known of it.
func (r *Refusals) WaitUS(c *limits.Check, now time.Duration) int64 {
	if c.Cost != 1 || c.Limit.Shadow {
		return 0
	}
	s, hash := r.shardOf(c.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.find(hash, c.Key)
	if e == nil || e.expiresUS <= now.Microseconds() || e.b.unit != r.numbersOf(c.Rate) {
		return 0
	}
	return e.b.timeUS - now.Microseconds()
}

// Learn takes in the answers of a store, which was asked at the time sent or later.
func (r *Refusals) Learn(checks []limits.Check, results []Result, sent time.Duration) {
	for i := range checks {
		if c := &checks[i]; !results[i].Allowed && results[i].WaitUS > 0 && c.Cost == 1 && !c.Limit.Shadow {
			r.add(c, results[i].WaitUS, sent.Microseconds())
		}
	}
}

func (r *Refusals) add(c *limits.Check, waitUS, sentUS int64) {
	s, hash := r.shardOf(c.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sentUS <= r.forgot.Load() {
		return
	}
	e := s.find(hash, c.Key)
	if e == nil {
		e = s.insert(hash, c.Key, 0, sentUS)
	}
	e.b, e.expiresUS = bucket{unit: r.numbersOf(c.Rate), timeUS: sentUS + waitUS}, sentUS+waitUS
	if c.LeftUS > 0 {
		e.expiresUS = sentUS + min(waitUS, c.LeftUS)
	}
	s.sweep(sentUS)
}

// Forget forgets all, and what is learned of requests that were sent before now.
func (r *Refusals) Forget(now time.Duration) {
	r.forgot.Store(now.Microseconds())
	each(r.shards, func(s *shard) { s.init(r.seed, s.max) })
}

// Len is the number of refusals, those that are over and not dropped yet among them.
func (r *Refusals) Len() int { return entriesIn(r.shards) }
