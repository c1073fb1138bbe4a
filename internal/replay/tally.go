package replay

import "authz/limits"

// A tally is what there is to say of one limit.
type tally struct {
	limit                       *limits.Limit
	requests, refused           int64
	blocked, missing, unlimited int64
	overridden, scheduled       int64 // an override's numbers counted, or a schedule's
	firstUS                     int64 // of the refusals; 0: none

	second, minute spans
	keys           *keyTable
	sample         *keySample
	measured       *roomiest // that suggestions are measured by; nil: nothing is suggested
	roomiest       map[*limits.Rate]*limits.Rate
	series         series
}

func newTally(l *limits.Limit, s *Suggest) *tally {
	t := &tally{limit: l, second: spans{widthUS: 1e6}, minute: spans{widthUS: 60e6}, keys: newKeyTable(), sample: newKeySample(),
		roomiest: map[*limits.Rate]*limits.Rate{}}
	if s != nil && !l.Rate.Unlimited {
		t.measured = newRoomiest(&l.Rate)
	}
	return t
}

// count takes in what the limit said of a request.
func (t *tally) count(nowUS int64, c *limits.Check, refused bool) {
	t.requests++
	one := int64(0)
	if refused {
		one = 1
		t.refused++
		if t.firstUS == 0 {
			t.firstUS = nowUS
		}
	}
	t.second.count(nowUS, one)
	t.minute.count(nowUS, one)
	key := c.Identity()
	row, isNew := t.keys.of(key)
	row.requests++
	row.refused += one
	switch {
	case c.Rate == &t.limit.Rate:
	case c.LeftUS > 0:
		t.scheduled++
	default:
		t.overridden++
	}
	// The sample counts the distinct keys: it needs each once, suggestions or not.
	if isNew || t.measured != nil {
		t.sampled(nowUS, c, key)
	}
	t.series.count(nowUS, one, t.loadOf(&row.meter, c, nowUS))
}

// sampled takes in what a key asks for. Who has the numbers of an override, or of a schedule, asks for
// nothing of the limit's own.
func (t *tally) sampled(nowUS int64, c *limits.Check, key []byte) {
	d := t.sample.of(key)
	if d == nil || t.measured == nil || c.Rate != &t.limit.Rate {
		return
	}
	d.add(c, t.measured, nowUS)
	if t.requests%4 == 0 {
		t.sample.sweep(nowUS, c.Rate.WindowUS)
	}
}

// A spans finds the second, or the minute, with the most.
type spans struct {
	widthUS              int64
	now                  Span
	busiest, mostRefused Span
}

// A Span is a stretch of the log.
type Span struct {
	FromUS            int64 // since 1970
	Requests, Refused int64
}

func (s *spans) count(nowUS, refused int64) {
	if from := nowUS - nowUS%s.widthUS; from != s.now.FromUS {
		s.end()
		s.now = Span{FromUS: from}
	}
	s.now.Requests++
	s.now.Refused += refused
}

// end takes in the span that has passed.
func (s *spans) end() {
	if s.now.Requests > s.busiest.Requests {
		s.busiest = s.now
	}
	if s.now.Refused > s.mostRefused.Refused {
		s.mostRefused = s.now
	}
}

// A series is what happened over time, in bins that are as long as they have to be.
type series struct {
	fromUS, widthUS int64
	bins            []bin
}

type bin struct {
	requests, refused int64
	peak              int64 // the most that one key asked for, in a thousandth of what the limit admits
}

const mostBins = 512 // more than a picture has room for

func (s *series) count(nowUS, refused, peak int64) {
	if s.widthUS == 0 {
		s.fromUS, s.widthUS = nowUS-nowUS%1e6, 1e6
	}
	at := (nowUS - s.fromUS) / s.widthUS
	for at >= mostBins {
		s.halve()
		at = (nowUS - s.fromUS) / s.widthUS
	}
	for int64(len(s.bins)) <= at {
		s.bins = append(s.bins, bin{})
	}
	b := &s.bins[at]
	b.requests++
	b.refused += refused
	b.peak = max(b.peak, peak)
}

// halve makes one bin of two.
func (s *series) halve() {
	for i := 0; i < len(s.bins); i += 2 {
		b := s.bins[i]
		if i+1 < len(s.bins) {
			next := s.bins[i+1]
			b = bin{b.requests + next.requests, b.refused + next.refused, max(b.peak, next.peak)}
		}
		s.bins[i/2] = b
	}
	s.bins = s.bins[:(len(s.bins)+1)/2]
	s.widthUS *= 2
}
