package store

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"authz/limits"
)

// Memory keeps the buckets in this process. It answers as Redis does, to the microsecond, and
// forgets everything when the process ends.
//
// It holds a bounded number of buckets in a fixed number of shards, and takes no lock but those of
// the shards that a request touches. When it is full a new bucket takes the place of one that has
// expired, else of one of the limit with the most buckets: no request fails or waits for room.
type Memory struct {
	seed   maphash.Seed
	shards []shard // a power of two, 64 at most: lock and unlock hold a set of them in a word
	replay bool    // the only clock is that of the callers

	groups sync.Map // name of a limit -> uint32, its group of entries; what an operator wrote, so few
	named  atomic.Uint32
}

// foreignClockUS is how much longer a bucket lives that was charged with a caller's own now: that
// clock and ours need not agree.
const foreignClockUS = 60e6

// NewMemory makes a store for maxBuckets buckets, one for each key that is in use. A bucket takes
// about 90 bytes and its key; with sliding_window another 8 to 16 for each admitted unit of cost.
func NewMemory(maxBuckets int) *Memory {
	if maxBuckets < 1 {
		panic("BUG: store.NewMemory wants room for 1 bucket at least")
	}
	seed := maphash.MakeSeed()
	return &Memory{seed: seed, shards: newShards(seed, maxBuckets)}
}

// NewReplayMemory makes a store for requests of the past. Each Take is handed its now, none earlier than the
// one before, and buckets expire by that clock alone: when they read as never used. So memory follows the
// keys in use, however fast a day is replayed.
func NewReplayMemory(maxBuckets int) *Memory {
	m := NewMemory(maxBuckets)
	m.replay = true
	return m
}

// Len is the number of buckets, expired ones that have not been dropped yet among them.
func (m *Memory) Len() int { return entriesIn(m.shards) }

// Dropped is the number of buckets that were in use and had to make room for others.
func (m *Memory) Dropped() (n int64) {
	each(m.shards, func(s *shard) { n += s.dropped })
	return n
}

// group is that of a limit's entries.
func (m *Memory) group(limit string) uint32 {
	if group, ok := m.groups.Load(limit); ok {
		return group.(uint32)
	}
	group, _ := m.groups.LoadOrStore(limit, m.named.Add(1)-1)
	return group.(uint32)
}

// A visit is one check of a Take under way.
type visit struct {
	shard *shard
	hash  uint64
	entry *entry // nil: no bucket yet
	b     bucket // as it stands now; sliding_window has its log in the entry
}

// Take is Store.Take. It never fails, and does not allocate for a key that it holds.
func (m *Memory) Take(_ context.Context, nowUS int64, checks []limits.Check, peek bool, dst []Result) ([]Result, error) {
	var few [8]visit
	visits := few[:0]
	var set uint64
	for i := range checks {
		hash := maphash.Bytes(m.seed, checks[i].Key)
		n := hash >> 32 & uint64(len(m.shards)-1)
		visits = append(visits, visit{shard: &m.shards[n], hash: hash})
		set |= 1 << n
	}
	m.lock(set)
	defer m.unlock(set)

	ownUS, nowUS, lifeUS := m.clock(nowUS)

	first, admitted := len(dst), true
	for i := range visits {
		v, c := &visits[i], &checks[i]
		if v.entry = v.shard.find(v.hash, c.Key); v.entry != nil && v.entry.expiresUS <= ownUS {
			v.entry.forget() // as Redis has by now; it would matter if the limit has been edited since
		}
		r := v.look(c, nowUS)
		dst = append(dst, r)
		admitted = admitted && (r.Allowed || c.Limit.Shadow)
	}
	if peek || !admitted {
		return dst, nil
	}
	// New buckets come last: to make room for one moves or drops others.
	for _, isNew := range [...]bool{false, true} {
		for i := range visits {
			v, c, r := &visits[i], &checks[i], &dst[first+i]
			if r.Allowed && (v.entry == nil) == isNew {
				m.charge(v, c, nowUS, ownUS, r)
				v.entry.expiresUS = ownUS + r.ResetUS + keptUS(c.Rate) + lifeUS
			}
		}
	}
	for i := range visits {
		visits[i].shard.sweep(ownUS)
	}
	return dst, nil
}

// Delete deletes a bucket, and says whether there was one.
func (m *Memory) Delete(key []byte) (was bool) {
	m.visit(key, func(e *entry) {
		e.forget()
		e.expiresUS = 0 // a sweep drops it
		was = true
	})
	return was
}

// Exists says whether there is a bucket, which may read as never used.
func (m *Memory) Exists(key []byte) (is bool) {
	m.visit(key, func(*entry) { is = true })
	return is
}

// visit is for the entry of a key, if there is one that has not expired.
func (m *Memory) visit(key []byte, see func(*entry)) {
	hash := maphash.Bytes(m.seed, key)
	s := &m.shards[hash>>32&uint64(len(m.shards)-1)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.find(hash, key); e != nil && e.expiresUS > time.Now().UnixMicro() {
		see(e)
	}
}

// clock is the time that buckets expire by, the time that requests are decided at, and how long a bucket
// lives beside its reset. It is read under the locks: whoever comes second is also later.
func (m *Memory) clock(callersUS int64) (ownUS, nowUS, lifeUS int64) {
	switch {
	case m.replay && callersUS == 0:
		panic("BUG: a Take from a replay memory is without its now")
	case m.replay:
		return callersUS, callersUS, 0
	}
	ownUS = time.Now().UnixMicro()
	if callersUS == 0 {
		return ownUS, ownUS, 0
	}
	return ownUS, callersUS, foreignClockUS
}

func (v *visit) look(c *limits.Check, nowUS int64) Result {
	if c.Limit.Algorithm == limits.SlidingWindow {
		if v.entry == nil {
			return new(timeLog).look(c, nowUS)
		}
		return v.entry.log.look(c, nowUS)
	}
	if v.entry != nil {
		v.b = v.entry.b
	}
	v.b = v.b.settle(c, nowUS)
	return v.b.look(c, nowUS)
}

func (m *Memory) charge(v *visit, c *limits.Check, nowUS, ownUS int64, r *Result) {
	if v.entry == nil {
		v.entry = v.shard.insert(v.hash, c.Key, m.group(c.Limit.Name), ownUS)
		if c.Limit.Algorithm == limits.SlidingWindow {
			v.entry.log = new(timeLog)
		}
	}
	if c.Limit.Algorithm == limits.SlidingWindow {
		v.entry.log.charge(c, nowUS, r)
	} else {
		v.entry.b = v.b.charge(c, nowUS, r)
	}
}

// lock takes the shards of a set in their order, so that no two requests wait for each other.
func (m *Memory) lock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Lock()
	}
}

func (m *Memory) unlock(set uint64) {
	for ; set != 0; set &= set - 1 {
		m.shards[bits.TrailingZeros64(set)].mu.Unlock()
	}
}
