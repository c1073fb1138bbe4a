package limits

// A Set is the limits file, compiled. It does not change and serves all requests at once.
type Set struct {
	spec   *spec
	limits []*Limit
}

// limitRule is how a limit is matched and keyed.
type limitRule struct{ parts []partSpec }

// scratch is what a Match works with.
type scratch struct{}

func compile(sp *spec) *Set {
	s := &Set{spec: sp}
	for i := range sp.limits {
		s.limits = append(s.limits, &sp.limits[i].limit)
	}
	return s
}

// Match finds what meets the request.
func (s *Set) Match(a *Attrs, m *Match) {}

// HeaderNames is the request headers that limits read, in lower case: Attrs.Headers has their values
// in this order. "cookie" is never among them, it is Attrs.Cookie.
func (s *Set) HeaderNames() []string { return nil }

// Limits is all limits, by name.
func (s *Set) Limits() []*Limit { return s.limits }

// HoldMaxUS is the longest that an answer may be held, in microseconds.
func (s *Set) HoldMaxUS() int64 { return s.spec.holdMaxUS }

// Replicas is how many instances share the traffic.
func (s *Set) Replicas() int64 { return s.spec.replicas }
