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
			s.insert(hash(key), []byte(key), 0, -1).b.used = i
			want[key] = i
		case r.IntN(3) > 0: // the hand drops some entry, and the map with it
			n := s.next()
			delete(want, string(s.entry(n).key()))
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
		e := s.insert(hash(key), []byte(key), 0, -1)
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
		s.insert(hash(key), []byte(key), 0, i).expiresUS = i + 1000
		s.sweep(i)
	}
	if s.n > 3000 {
		t.Errorf("%d entries, want about 1500 for 1000 that are alive", s.n)
	}
}

// Full of entries of two groups, a shard of any size drops each entry of the larger one in its turn, and none of the other.
func TestEvictionLooksAtEveryPlace(t *testing.T) {
	for _, max := range []int{1, 2, 7, 8, 9, 11, 64, 142, 1562, 1563, 1573} {
		s, hash := newShard(max)
		strict := 0
		for i := range max {
			key, group := fmt.Sprint("first", i), uint32(0)
			if i%3 == 1 && max > 3 {
				group, strict = 1, strict+1
			}
			s.insert(hash(key), []byte(key), group, 0).expiresUS = 1e9
		}
		for i := range 12 * max {
			key := fmt.Sprint("later", i)
			s.insert(hash(key), []byte(key), 0, 0).expiresUS = 1e9
		}
		left, kept := 0, 0
		for i := range s.n {
			switch e := s.entry(i); {
			case e.group == 1:
				kept++
			case string(e.key()[:5]) == "first":
				left++
			}
		}
		if s.n != max || left != 0 || kept != strict || int(s.counts[0])+strict != max || s.dropped != int64(12*max) {
			t.Errorf("%d places: %d entries, %d of the first of the large group left, %d of %d of the strict one, %d dropped",
				max, s.n, left, kept, strict, s.dropped)
		}
	}
}

// What has expired is dropped first, whatever its group.
func TestEvictionPrefersWhatHasExpired(t *testing.T) {
	s, hash := newShard(100)
	for i := range 100 {
		key, group := fmt.Sprint(i), uint32(0)
		if i == 50 {
			group = 1
		}
		s.insert(hash(key), []byte(key), group, 0).expiresUS = 1000
	}
	s.evictHand = 45
	s.find(hash("50"), []byte("50")).expiresUS = 10
	s.evict(10)
	if s.find(hash("50"), []byte("50")) != nil || s.dropped != 0 || s.n != 99 {
		t.Errorf("%d entries, %d dropped while in use, want the expired one gone", s.n, s.dropped)
	}
}
