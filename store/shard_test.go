package store

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"
)

// newShard is a shard and what inserts a key in it, with a count that tells it from an older one.
func newShard(max int) (*shard, func(key string) uint64) {
	s, seed := new(shard), maphash.MakeSeed()
	s.init(seed, max)
	return s, func(key string) uint64 { return maphash.String(seed, key) }
}

func TestAShardFindsWhatAMapFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s, hash := newShard(1 << 20)
	want := map[string]int64{}
	for i := range int64(50000) {
		key := fmt.Sprint(r.IntN(3000))
		e := s.find(hash(key), []byte(key))
		if used, ok := want[key]; ok != (e != nil) || ok && e.b.used != used {
			t.Fatalf("step %d: key %s: found %v, want %d (%v)", i, key, e, used, ok)
		}
		switch {
		case e == nil:
			s.insert(hash(key), []byte(key), -1).b.used = i
			want[key] = i
		case r.IntN(3) > 0: // the hand drops some entry, and the map with it
			n := s.next()
			delete(want, string(s.entry(n).key.get()))
			s.remove(n)
		}
		if s.n != len(want) {
			t.Fatalf("step %d: %d entries, want %d", i, s.n, len(want))
		}
	}
	if len(want) < 100 {
		t.Fatalf("%d keys left, want a full table", len(want))
	}
}

func TestExpiredEntriesLeaveAndTheirMemoryToo(t *testing.T) {
	s, hash := newShard(1 << 20)
	for i := range int64(10000) {
		key := fmt.Sprint(i)
		e := s.insert(hash(key), []byte(key), -1)
		e.expiresUS, e.log = i, new(timeLog)
	}
	for range 30000 { // sweeps at 8999, that is 90% have expired
		s.sweep(8999)
	}
	if s.n != 1000 || len(s.slabs) > 1000/slabEntries+3 || len(s.index) > 8*1024 {
		t.Errorf("%d entries in %d slabs, index of %d; want 1000 in 10, less than 8192", s.n, len(s.slabs), len(s.index))
	}
	for range 3000 {
		s.sweep(10000)
	}
	if s.n != 0 {
		t.Errorf("%d entries, want 0", s.n)
	}
	s.sweep(10000) // an empty shard
	if s.find(hash("7"), []byte("7")) != nil {
		t.Error("found 7, want it gone")
	}
}

// New keys that are used once and expire at once: three are looked at for each, so few pile up.
func TestADropKeepsUpWithNewKeys(t *testing.T) {
	s, hash := newShard(1 << 20)
	for i := range int64(100000) {
		key := fmt.Sprint(i)
		s.insert(hash(key), []byte(key), i).expiresUS = i + 1000
		s.sweep(i)
	}
	if s.n > 3000 {
		t.Errorf("%d entries, want about 1500 for 1000 that are alive", s.n)
	}
}
