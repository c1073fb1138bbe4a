package replay

import (
	"cmp"
	"slices"

	"authz/internal/store"
)

// A keyTable counts by key. While there are no more keys than it has room for, it is exact. From then on a
// new key takes the place of the least frequent, and begins with its count (Space-Saving, by Metwally,
// Agrawal and El Abbadi): a key has had at most as many requests as are counted, and at least as many less
// what it began with.
type keyTable struct {
	places map[string]int32
	rows   []keyRow
	hand   int   // where a row with the least requests is looked for
	least  int64 // requests: no row has fewer
}

type keyRow struct {
	key               string
	requests, refused int64
	over              int64       // as many of the requests may be others'
	meter             store.Meter // of what the key asks for
}

// mostKeys is how many keys a limit's table has room for, in a few megabytes.
const mostKeys = 1 << 15

func newKeyTable() *keyTable { return &keyTable{places: map[string]int32{}} }

// of is the row of a key, valid until the next call, and whether it was not there before.
func (t *keyTable) of(key []byte) (row *keyRow, isNew bool) {
	if at, ok := t.places[string(key)]; ok {
		return &t.rows[at], false
	}
	name := string(key)
	if len(t.rows) < mostKeys {
		t.places[name] = int32(len(t.rows))
		t.rows = append(t.rows, keyRow{key: name})
		return &t.rows[len(t.rows)-1], true
	}
	at := t.leastRow()
	row = &t.rows[at]
	delete(t.places, row.key)
	t.places[name] = int32(at)
	*row = keyRow{key: name, requests: row.requests, over: row.requests}
	return row, true
}

// leastRow is a row with the fewest requests. A round over the rows finds all of those, one a call.
func (t *keyTable) leastRow() int {
	for {
		for at := t.hand; at < len(t.rows); at++ {
			if t.rows[at].requests <= t.least {
				t.hand = at + 1
				return at
			}
		}
		t.hand = 0
		t.least = slices.MinFunc(t.rows, func(a, b keyRow) int { return cmp.Compare(a.requests, b.requests) }).requests
	}
}

// top is the rows with the most by some count, those that have any; of equals, the first by name.
func (t *keyTable) top(n int, count func(*keyRow) int64) []keyRow {
	rows := slices.Clone(t.rows)
	slices.SortFunc(rows, func(a, b keyRow) int {
		return cmp.Or(cmp.Compare(count(&b), count(&a)), cmp.Compare(a.key, b.key))
	})
	for i := range rows {
		if i == n || count(&rows[i]) == 0 {
			return rows[:i]
		}
	}
	return rows
}

// A keySample is keys, each with what it asked for: all of them while there is room, from then on those of
// which a hash ends with so many zeros (Gibbons' distinct sampling). So each key is as likely to be in it as
// any other, however busy it is.
type keySample struct {
	keys  map[uint64]*demand
	all   []*demand
	zeros int
	hand  int // of sweep
}

// mostSampled is how many keys a sample has room for.
const mostSampled = 1 << 17

func newKeySample() *keySample { return &keySample{keys: map[uint64]*demand{}} }

// of is what a key has asked for; nil if it is not in the sample.
func (s *keySample) of(key []byte) *demand {
	hash := hashOf(key)
	if hash&(1<<s.zeros-1) != 0 {
		return nil
	}
	if d := s.keys[hash]; d != nil {
		return d
	}
	if len(s.all) == mostSampled {
		s.thin()
		return s.of(key)
	}
	d := &demand{hash: hash}
	s.keys[hash] = d
	s.all = append(s.all, d)
	return d
}

// thin drops half of the keys.
func (s *keySample) thin() {
	s.zeros++
	s.all = slices.DeleteFunc(s.all, func(d *demand) bool {
		out := d.hash&(1<<s.zeros-1) != 0
		if out {
			delete(s.keys, d.hash)
		}
		return out
	})
}

// sweep frees the log of one key that has asked for nothing for a window. Called with every fourth request, it
// leaves no more of those than four requests a key have made.
func (s *keySample) sweep(nowUS, windowUS int64) {
	if s.hand++; s.hand >= len(s.all) {
		s.hand = 0
	}
	s.all[s.hand].free(nowUS, windowUS)
}

// distinct is how many keys there are; it is exact while all are in the sample.
func (s *keySample) distinct() (n int64, exact bool) {
	return int64(len(s.all)) << s.zeros, s.zeros == 0
}

// hashOf is FNV-1a, with its bits mixed once more: the last of them alone decide.
func hashOf(key []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range key {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return h ^ h>>33
}
