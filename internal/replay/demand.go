package replay

import (
	"math/bits"

	"authz/internal/store"
	"authz/limits"
)

// A demand is what one key has asked for, refusals or not, and the peak of that by each algorithm: a limit of that
// size or more would have refused the key nothing.
type demand struct {
	hash uint64

	meters [measures]store.Meter
	peaks  [measures]int64 // whole cost, or 1/W token of a bucket; beyond: more than is counted exactly

	rate neededRate // of a bucket as large as the limit's
}

// A measure is an algorithm that demands are measured by. Both buckets have the same level.
type measure uint8

const (
	byWindow measure = iota
	byLog
	byCounter
	byLevel
	measures
)

var measureOf = [...]measure{limits.TokenBucket: byLevel, limits.LeakyBucket: byLevel, limits.FixedWindow: byWindow,
	limits.SlidingWindow: byLog, limits.SlidingCounter: byCounter}

var measured = [measures]limits.Algorithm{byWindow: limits.FixedWindow, byLog: limits.SlidingWindow,
	byCounter: limits.SlidingCounter, byLevel: limits.TokenBucket}

// beyond is more than any number that is counted exactly, and far from an overflow.
const beyond = 1 << 60

// A roomiest is the rates that a limit's demands are measured by; nil for a bucket that nothing fills.
type roomiest [measures]*limits.Rate

// newRoomiest is for a limit with these numbers.
func newRoomiest(own *limits.Rate) *roomiest {
	all := new(roomiest)
	for m, a := range measured {
		r := own
		if a == limits.SlidingCounter && own.OffsetUS > 0 { // its windows begin with the epoch's
			aligned := *own
			aligned.OffsetUS = 0
			r = &aligned
		}
		if a.IsBucket() {
			if own.Count == 0 {
				continue
			}
			r = limits.NewRate(a, own.Count, own.WindowUS, new(int64(1)))
		}
		all[m] = store.Roomiest(a, r)
	}
	return all
}

// add takes in a request.
func (d *demand) add(c *limits.Check, by *roomiest, nowUS int64) {
	for m, rate := range by {
		if rate == nil || d.peaks[m] == beyond {
			continue
		}
		used, ok := d.meters[m].Charge(measured[m], rate, c.Cost, nowUS)
		if !ok {
			d.meters[m], used = store.Meter{}, beyond
		}
		d.peaks[m] = max(d.peaks[m], used)
	}
	if a := c.Limit.Algorithm; a.IsBucket() {
		d.rate.add(c.Rate.Size(a), c.Cost, c.Rate.WindowUS, nowUS)
	}
}

// peak is the size that a limit of this algorithm needs to refuse the key nothing.
func (d *demand) peak(a limits.Algorithm, by *roomiest) int64 {
	m := measureOf[a]
	if m == byLevel && d.peaks[m] != beyond {
		return (d.peaks[m] + by[m].W - 1) / by[m].W
	}
	return d.peaks[m]
}

// free frees a log of which nothing is counted any more.
func (d *demand) free(nowUS, windowUS int64) { d.meters[byLog].Free(windowUS, nowUS) }

// loadOf charges a key's meter, and returns what the key asks for of the limit as it is, refusals or not: in a
// thousandth of what the limit admits. All windows are measured as aligned ones.
func (t *tally) loadOf(m *store.Meter, c *limits.Check, nowUS int64) int64 {
	a, size := limits.FixedWindow, c.Rate.Count
	if c.Limit.Algorithm.IsBucket() {
		a, size = c.Limit.Algorithm, c.Rate.Capacity
	}
	if size == 0 {
		return 0
	}
	rate := t.roomiest[c.Rate]
	if rate == nil {
		rate = store.Roomiest(a, c.Rate)
		t.roomiest[c.Rate] = rate
	}
	used, ok := m.Charge(a, rate, c.Cost, nowUS)
	if !ok {
		return beyond
	}
	return scaled(used, size, 1000)
}

// scaled is n where all would be size, rounded down; 0 of nothing, and not more than beyond.
func scaled(n, all, size int64) int64 {
	if all == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(size))
	if high >= uint64(all) {
		return beyond
	}
	quotient, _ := bits.Div64(high, low, uint64(all))
	return min(beyond, int64(quotient&(1<<63-1)))
}
