package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"authz/limits"
)

// A Suggestion is the smallest number of one algorithm, with the limit's own window (buckets: its own rate),
// that would have refused at most so many keys, had the limit stood alone.
type Suggestion struct {
	Algorithm string `json:"algorithm"`
	Rate      string `json:"rate"`            // as the limits file has it, with the headroom
	Burst     *int64 `json:"burst,omitempty"` // of buckets, with the headroom
	Smallest  int64  `json:"smallest"`        // without the headroom: of buckets the burst, else the count
	Refused   int64  `json:"refused_keys"`    // at the smallest
	Not       string `json:"not,omitempty"`   // why it cannot be used; rate and burst are what it would have to be
}

// asked is the keys that have asked for something of the limit's own numbers.
func (t *tally) asked() (asked []*demand) {
	for _, d := range t.sample.all {
		if d.windowPeak > 0 {
			asked = append(asked, d)
		}
	}
	return asked
}

// suggestions are those for the keys that have asked; mostCost is what one request of the limit may cost.
func (t *tally) suggestions(asked []*demand, s *Suggest, set *limits.Set, mostCost int64) []Suggestion {
	if len(asked) == 0 {
		return nil
	}
	var all []Suggestion
	for a := limits.TokenBucket; a <= limits.SlidingCounter; a++ {
		if isBucket(a) && t.bucket.N == 0 {
			continue // a rate of 0 fills no bucket
		}
		all = append(all, t.suggestion(a, asked, s, set, mostCost))
	}
	return all
}

func isBucket(a limits.Algorithm) bool { return a == limits.TokenBucket || a == limits.LeakyBucket }

func (t *tally) suggestion(a limits.Algorithm, asked []*demand, s *Suggest, set *limits.Set, mostCost int64) Suggestion {
	peaks := make([]int64, 0, len(asked))
	for _, d := range asked {
		peaks = append(peaks, t.peak(d, a))
	}
	slices.SortFunc(peaks, func(a, b int64) int { return cmp.Compare(b, a) })
	mayRefuse := scaled(int64(len(peaks)), int64(Whole), int64(s.Keys))
	size := max(1, mostCost)
	if mayRefuse < int64(len(peaks)) {
		size = max(size, peaks[mayRefuse])
	}
	refused := int64(0)
	for refused < int64(len(peaks)) && peaks[refused] > size {
		refused++
	}
	r := rateOf(a, s.Headroom.more(size), &t.limit.Rate)
	out := Suggestion{Algorithm: a.String(), Rate: r.String(), Smallest: size, Refused: refused, Not: unusable(a, r, size, set)}
	if isBucket(a) {
		out.Burst = &r.Burst
		out.Smallest -= r.Size(a) - r.Burst // a leaky bucket's is one less
	}
	return out
}

// peak is the size that a limit of this algorithm must have to refuse the key nothing.
func (t *tally) peak(d *demand, a limits.Algorithm) int64 {
	switch a {
	case limits.FixedWindow:
		return d.windowPeak
	case limits.SlidingWindow:
		return d.slidePeak
	case limits.SlidingCounter:
		return d.counterPeak
	}
	return (d.levelPeak + t.bucket.W - 1) / t.bucket.W
}

// rateOf is the rate of this size, in the window of own.
func rateOf(a limits.Algorithm, size int64, own *limits.Rate) *limits.Rate {
	switch a {
	case limits.TokenBucket:
		return limits.NewRate(a, own.Count, own.WindowUS, size)
	case limits.LeakyBucket:
		return limits.NewRate(a, own.Count, own.WindowUS, size-1)
	}
	return limits.NewRate(a, size, own.WindowUS, 0)
}

// unusable says why authz would not load such a limit.
func unusable(a limits.Algorithm, r *limits.Rate, smallest int64, set *limits.Set) string {
	switch most := r.MaxSize(a); {
	case a == limits.SlidingWindow && smallest > most:
		return fmt.Sprintf("more than %d, which is the most that it counts", most)
	case r.Size(a) > most:
		return fmt.Sprintf("more than %d cannot be counted exactly", most)
	case a == limits.LeakyBucket && r.Burst*r.W > set.HoldMaxUS()*r.N:
		hold := (r.Burst*r.W + r.N - 1) / r.N
		return fmt.Sprintf("the last would be held for %v, and hold_max is %v", time.Duration(hold)*time.Microsecond,
			time.Duration(set.HoldMaxUS())*time.Microsecond)
	}
	return ""
}
