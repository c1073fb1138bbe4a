package store

import (
	"hash/maphash"
	"sync"
	"unsafe"
)

// A shard is a hash table of buckets: the entries lie one after the other in slabs, and an index
// with linear probing says where. Nothing is moved when it grows but the index, and a dropped
// entry leaves its memory to the next.
type shard struct {
	mu    sync.Mutex
	seed  maphash.Seed
	max   int
	n     int // entries in use
	hand  int // where sweep goes on
	index []place
	slabs []*[slabEntries]entry

	evictHand int     // where evict goes on: a hand of its own looks at every entry in turn
	counts    []int32 // entries of each group
	dropped   int64   // entries that evict has dropped and that had not expired

	// A shard fills two cache lines, and shares none with another.
}

// slabEntries and the 8 bytes that Go adds to an array of pointers fill 8 KB.
const slabEntries = 127

// An entry is a key and its bucket, in a cache line of 64 bytes.
type entry struct {
	keyAt     *byte
	keyLen    uint32
	group     uint32 // whose entries are counted together: a limit's
	b         bucket
	log       *timeLog // sliding_window only
	expiresUS int64    // when it reads as never used, by this process's clock
}

// keyRoom is the room that a key of this length has: memory is used again for a key that fits.
func keyRoom(length uint32) uint32 { return (length + 15) &^ 15 }

func (e *entry) key() []byte { return unsafe.Slice(e.keyAt, e.keyLen) }

func (e *entry) setKey(key []byte) {
	n := uint32(len(key))
	if keyRoom(n) > keyRoom(e.keyLen) {
		e.keyAt = unsafe.SliceData(make([]byte, keyRoom(n)))
	}
	e.keyLen = n
	copy(e.key(), key)
}

// forget makes it a bucket that was never used.
func (e *entry) forget() {
	e.b = bucket{}
	if e.log != nil {
		e.log.times = e.log.times[:0]
	}
}

// A place says where the entry of a hash is.
type place struct {
	tag uint32 // of the hash
	at  uint32 // 1 + the number of the entry; 0: free
}

// shardEntries is what a shard should have room for before there are two: a small table in many
// shards would be full in one and empty in another.
const shardEntries = 1024

// newShards makes a table for max entries: a power of two of shards, 64 at most.
func newShards(seed maphash.Seed, max int) []shard {
	n := 1
	for n < 64 && max/(2*n) >= shardEntries {
		n *= 2
	}
	shards := make([]shard, n)
	for i := range shards {
		shards[i].init(seed, max/n)
	}
	return shards
}

func entriesIn(shards []shard) (n int) {
	each(shards, func(s *shard) { n += s.n })
	return n
}

// each calls f with one shard after the other, locked.
func each(shards []shard, f func(*shard)) {
	for i := range shards {
		s := &shards[i]
		s.mu.Lock()
		f(s)
		s.mu.Unlock()
	}
}

func (s *shard) init(seed maphash.Seed, max int) {
	s.seed, s.max, s.index = seed, max, make([]place, 16)
	s.n, s.hand, s.evictHand, s.slabs, s.counts = 0, 0, 0, nil, nil
}

func (s *shard) entry(i int) *entry { return &s.slabs[i/slabEntries][i%slabEntries] }

// find returns the entry of a key, or nil. It is valid until the next insert or sweep.
func (s *shard) find(hash uint64, key []byte) *entry {
	tag, mask := uint32(hash), uint32(len(s.index)-1)
	for p := tag & mask; s.index[p].at != 0; p = (p + 1) & mask {
		if s.index[p].tag == tag {
			if e := s.entry(int(s.index[p].at - 1)); string(e.key()) == string(key) {
				return e
			}
		}
	}
	return nil
}

// insert adds an entry of a group for a key that is not there, and drops another when the shard is full.
func (s *shard) insert(hash uint64, key []byte, group uint32, ownUS int64) *entry {
	s.sweep(ownUS)
	s.sweep(ownUS)
	if s.n == s.max {
		s.evict(ownUS)
	}
	for int(group) >= len(s.counts) {
		s.counts = append(s.counts, 0)
	}
	s.counts[group]++
	if 4*(s.n+1) > 3*len(s.index) {
		s.resize(2 * len(s.index))
	}
	if s.n == len(s.slabs)*slabEntries {
		s.slabs = append(s.slabs, new([slabEntries]entry))
	}
	e := s.entry(s.n)
	e.setKey(key)
	e.group = group
	s.n++
	s.put(place{uint32(hash), uint32(s.n)})
	return e
}

// evict drops the entry that is worth least. It looks at a few entries, and goes on until one of them is of the largest
// group: a client that makes up keys for one limit takes the place of that limit's keys, and never of another's.
//
// Dropping an expired bucket cannot change an answer: a missing key reads as never used. Of a group's others the one
// that expires first forgives least.
func (s *shard) evict(ownUS int64) {
	const sample = 8
	largest := uint32(0)
	for group, n := range s.counts {
		if n > s.counts[largest] {
			largest = uint32(group)
		}
	}
	victim := -1
	for looked := 0; looked < sample || victim < 0; looked++ {
		if s.evictHand++; s.evictHand >= s.n {
			s.evictHand = 0
		}
		e := s.entry(s.evictHand)
		if e.expiresUS <= ownUS {
			s.remove(s.evictHand)
			return
		}
		if e.group == largest && (victim < 0 || e.expiresUS < s.entry(victim).expiresUS) {
			victim = s.evictHand
		}
	}
	s.evictHand = victim // goes on behind it, so that of equals each comes up
	s.dropped++
	s.remove(victim)
}

// sweep drops the next entry if it has expired. Called with every charge, and twice more by insert, it
// drops faster than entries can be added, so that memory follows the keys in use without a goroutine.
func (s *shard) sweep(ownUS int64) {
	if s.n == 0 {
		return
	}
	if i := s.next(); s.entry(i).expiresUS <= ownUS {
		s.remove(i)
		s.hand-- // another entry has taken its number
	}
}

// next moves the hand to the next entry.
func (s *shard) next() int {
	if s.hand++; s.hand >= s.n {
		s.hand = 0
	}
	return s.hand
}

// remove drops an entry; the last one takes its number.
func (s *shard) remove(i int) {
	last := s.n - 1
	s.take(i)
	gone, end := s.entry(i), s.entry(last)
	s.counts[gone.group]--
	if i != last {
		s.index[s.placeOf(last)].at = uint32(i + 1)
		*gone, *end = *end, *gone // the memory of the key stays, for the next insert
	}
	end.b, end.log = bucket{}, nil
	s.n = last
	if spare := len(s.slabs)*slabEntries - s.n; spare > 2*slabEntries {
		s.slabs[len(s.slabs)-1] = nil
		s.slabs = s.slabs[:len(s.slabs)-1]
	}
	if len(s.index) > 16 && 8*s.n < len(s.index) {
		s.resize(len(s.index) / 2)
	}
}

// take frees the place of entry i, and closes the gap for those that were put behind it.
func (s *shard) take(i int) {
	mask := uint32(len(s.index) - 1)
	gap := s.placeOf(i)
	for p := (gap + 1) & mask; s.index[p].at != 0; p = (p + 1) & mask {
		// What is at p may move into the gap if a search for it, which begins at home, comes through
		// the gap: then home is as far from p as the gap, or farther (the index is a ring).
		if home := s.index[p].tag & mask; (p-home)&mask >= (p-gap)&mask {
			s.index[gap] = s.index[p]
			gap = p
		}
	}
	s.index[gap] = place{}
}

func (s *shard) placeOf(i int) uint32 {
	mask := uint32(len(s.index) - 1)
	p := uint32(maphash.Bytes(s.seed, s.entry(i).key())) & mask
	for s.index[p].at != uint32(i+1) {
		p = (p + 1) & mask
	}
	return p
}

func (s *shard) put(pl place) {
	mask := uint32(len(s.index) - 1)
	p := pl.tag & mask
	for s.index[p].at != 0 {
		p = (p + 1) & mask
	}
	s.index[p] = pl
}

func (s *shard) resize(n int) {
	old := s.index
	s.index = make([]place, n)
	for _, pl := range old {
		if pl.at != 0 {
			s.put(pl)
		}
	}
}
