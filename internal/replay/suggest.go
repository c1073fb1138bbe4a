package replay

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"authz/limits"
)

// A Suggestion is the smallest number of one algorithm that would have refused at most so many keys, had the
// limit stood alone: a count in the limit's own window, or the burst of a bucket at the limit's own rate. For a
// limit that is a bucket there is also the count at its own burst.
type Suggestion struct {
	Algorithm string `json:"algorithm"`
	Number    string `json:"number"`          // which is the smallest: "count" or "burst"
	Smallest  int64  `json:"smallest"`        // without the headroom
	Refused   int64  `json:"refused_keys"`    // at the smallest
	Rate      string `json:"rate,omitempty"`  // as the limits file has it, with the headroom; "" if no number would do
	Burst     *int64 `json:"burst,omitempty"` // of buckets; with the headroom, if it is the number
	Not       string `json:"not,omitempty"`   // why it cannot be used; rate and burst are what it would have to be
}

// what is "token_bucket burst 20".
func (s Suggestion) what() string {
	if s.Rate == "" {
		return s.Algorithm + " " + s.Number
	}
	return fmt.Sprintf("%s %s %d", s.Algorithm, s.Number, s.Smallest)
}

// numbers are the lines of the limits file, "-" if there are none that would do.
func (s Suggestion) numbers() string {
	switch {
	case s.Rate == "":
		return "-"
	case s.Burst == nil:
		return fmt.Sprintf("rate = %q", s.Rate)
	}
	return fmt.Sprintf("rate = %q, burst = %d", s.Rate, *s.Burst)
}

// refused is how many keys, "-" if no number would do.
func (s Suggestion) refused() string {
	if s.Rate == "" {
		return "-"
	}
	return fmt.Sprint(s.Refused)
}

// asked is the keys that have asked for something of the limit's own numbers.
func (t *tally) asked() (asked []*demand) {
	for _, d := range t.sample.all {
		if d.peaks[byWindow] > 0 {
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
	for _, a := range limits.Algorithms {
		if a.IsBucket() && t.measured[byLevel] == nil {
			continue // a rate of 0 fills no bucket
		}
		all = append(all, t.suggestion(a, asked, s, set, mostCost))
		if a == t.limit.Algorithm && a.IsBucket() {
			all = append(all, t.rateSuggestion(asked, s, set))
		}
	}
	return all
}

func (t *tally) suggestion(a limits.Algorithm, asked []*demand, s *Suggest, set *limits.Set, mostCost int64) Suggestion {
	size, refused := smallest(asked, s.Keys, max(1, mostCost), func(d *demand) int64 { return d.peak(a, t.measured) })
	if size == beyond {
		number := "count"
		if a.IsBucket() {
			number = "burst"
		}
		return Suggestion{Algorithm: a.String(), Number: number, Not: tooMuch(a, t.measured[measureOf[a]])}
	}
	r := rateOf(a, s.Headroom.more(size), &t.limit.Rate)
	out := Suggestion{Algorithm: a.String(), Number: "count", Smallest: size, Refused: refused, Rate: r.String(), Not: unusable(a, r, set)}
	if a.IsBucket() {
		out.Number, out.Burst = "burst", &r.Burst
		out.Smallest -= r.Size(a) - r.Burst // a leaky bucket's is one less
	}
	return out
}

// rateSuggestion is the smallest count of a bucket with the limit's own burst.
func (t *tally) rateSuggestion(asked []*demand, s *Suggest, set *limits.Set) Suggestion {
	a, own := t.limit.Algorithm, &t.limit.Rate
	count, refused := smallest(asked, s.Keys, 1, func(d *demand) int64 { return d.rate.count })
	out := Suggestion{Algorithm: a.String(), Number: "count", Smallest: count, Refused: refused, Burst: &own.Burst}
	if count == beyond {
		out.Smallest = 0
		out.Not = fmt.Sprintf("no rate is enough at a burst of %d: more is asked for at once", own.Burst)
		return out
	}
	r := limits.NewRate(a, s.Headroom.more(count), own.WindowUS, &own.Burst)
	out.Rate, out.Not = r.String(), unusable(a, r, set)
	return out
}

// smallest is the smallest number, no less than least, that is below the peaks of no more keys than may be
// refused, and of how many it is.
func smallest(asked []*demand, may Share, least int64, peak func(*demand) int64) (number, refused int64) {
	peaks := make([]int64, 0, len(asked))
	for _, d := range asked {
		peaks = append(peaks, peak(d))
	}
	slices.SortFunc(peaks, func(a, b int64) int { return cmp.Compare(b, a) })
	number = least
	if n := scaled(int64(len(peaks)), int64(Whole), int64(may)); n < int64(len(peaks)) {
		number = max(number, peaks[n])
	}
	for refused < int64(len(peaks)) && peaks[refused] > number {
		refused++
	}
	return number, refused
}

// rateOf is the rate of this size, in the window of own.
func rateOf(a limits.Algorithm, size int64, own *limits.Rate) *limits.Rate {
	switch a {
	case limits.TokenBucket:
		return limits.NewRate(a, own.Count, own.WindowUS, &size)
	case limits.LeakyBucket:
		return limits.NewRate(a, own.Count, own.WindowUS, new(size-1))
	}
	return limits.NewRate(a, size, own.WindowUS, nil)
}

// tooMuch says that a limit with this rate's window cannot be large enough.
func tooMuch(a limits.Algorithm, r *limits.Rate) string {
	if a == limits.SlidingWindow {
		return fmt.Sprintf("more than %d, which is the most that it counts", r.MaxSize(a))
	}
	return fmt.Sprintf("more than %d cannot be counted exactly", r.MaxSize(a))
}

// unusable says why authz would not load such a limit.
func unusable(a limits.Algorithm, r *limits.Rate, set *limits.Set) string {
	switch {
	case r.Size(a) > r.MaxSize(a):
		return tooMuch(a, r)
	case a == limits.LeakyBucket && r.Burst*r.W > set.HoldMaxUS()*r.N:
		hold := (r.Burst*r.W + r.N - 1) / r.N
		return fmt.Sprintf("the last would be held for %v, and hold_max is %v", time.Duration(hold)*time.Microsecond,
			time.Duration(set.HoldMaxUS())*time.Microsecond)
	}
	return ""
}
