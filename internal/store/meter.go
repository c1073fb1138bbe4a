package store

import "authz/limits"

// A Meter charges one key for every request, admitted or not: it measures what the key asks for, by the arithmetic of
// the store. The zero Meter was never used. Its caller hands it times that never go back.
type Meter struct {
	b   bucket
	log *timeLog // of sliding_window alone
}

// Roomiest is a rate that refuses nothing which can be counted exactly: the largest window, or a bucket that gains as
// r does and holds the most. What of it is used when it is new is the same as of r.
func Roomiest(a limits.Algorithm, r *limits.Rate) *limits.Rate {
	most, big := r.MaxSize(a), *r
	if !a.IsBucket() {
		big.Count = most
		return &big
	}
	more := most - r.Size(a)
	big.Burst += more
	big.Capacity += more * r.W
	if r.Initial > 0 {
		big.Initial += more
	}
	return &big
}

// Charge adds a cost, and returns how much the key then uses of a Roomiest rate: whole cost, or for buckets 1/W token.
// It is not ok, and charges nothing, if that is more than can be counted.
func (m *Meter) Charge(a limits.Algorithm, roomiest *limits.Rate, cost, nowUS int64) (used int64, ok bool) {
	c := &limits.Check{Limit: &metered[a], Rate: roomiest, Cost: cost}
	if a == limits.SlidingWindow {
		if m.log == nil {
			m.log = new(timeLog)
		}
		r := m.log.look(c, nowUS)
		if r.Allowed {
			m.log.charge(c, nowUS, &r)
		}
		return roomiest.Count - r.Remaining, r.Allowed
	}
	m.b = m.b.settle(c, nowUS)
	r := m.b.look(c, nowUS)
	if r.Allowed {
		m.b = m.b.charge(c, nowUS, &r)
	}
	if a.IsBucket() {
		return m.b.used, r.Allowed
	}
	return roomiest.Count - r.Remaining, r.Allowed
}

// Holds reports whether the meter holds a log.
func (m *Meter) Holds() bool { return m.log != nil }

// Free drops a log of which nothing is counted any more.
func (m *Meter) Free(windowUS, nowUS int64) {
	if m.log != nil && m.log.times[len(m.log.times)-1] <= nowUS-windowUS {
		m.log = nil
	}
}

var metered = func() (all [limits.SlidingCounter + 1]limits.Limit) {
	for _, a := range limits.Algorithms {
		all[a].Algorithm = a
	}
	return all
}()
