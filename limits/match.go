package limits

import (
	"fmt"
	"math/bits"
	"net/netip"
	"strings"
)

// A Set is the limits file, compiled. It does not change, and serves all requests at once.
type Set struct {
	spec    *spec
	version string   // of its JSON
	limits  []*Limit // by name, as in spec
	slots   slots
	rules   []rule // in the order in which they are asked: deny, allow, limits, each by name
	index   index
	parts   []keyPart // each part that occurs in a key, once

	schedules int
}

// A rule is what a [deny], [allow] or [limit] table asks of a request.
type rule struct {
	name          string
	match, unless condition
	verdict       Verdict // that it ends with: Deny or Allow; for a limit Deny, if a part of its key is missing
	limit         *Limit  // nil for deny and allow
}

// A condition is a match or unless table: all of it must hold.
type condition struct {
	slots []slotCondition
	ip    *Prefixes // nil: not written
}

type slotCondition struct {
	slot  int
	anyOf *patternList
}

// scratch is what a Match works with: what the rules know of one request.
type scratch struct {
	set    *Set
	ip     netip.Addr
	nowUS  int64
	values [][]byte // by slot; empty: missing
	filled []int    // the slots of cookies and query arguments that have a value
	bits   []uint64 // the rules that the request may meet
	seen   []uint64 // by posting: the last turn in which it was added to bits
	turn   uint64   // counts requests

	parts  [][]byte // by place in Set.parts: its text, once it is made; nil before
	made   []int    // the places of parts that are
	host   []byte   // what values[slotHost] is in
	text   []byte   // decoded query values, parts and keys, one after the other
	lookup []byte   // a decoded name, an override's identity

	periods []period // by Limit.Index: the last that was looked up
}

// Match finds what meets the request. It does not allocate, once m has grown to the size of the set.
// What it finds is valid until the next Match into m.
func (s *Set) Match(a *Attrs, m *Match) {
	m.Verdict, m.Rule, m.Limit = None, "", nil
	m.Checks, m.Unlimited, m.Missing = m.Checks[:0], m.Unlimited[:0], m.Missing[:0]
	m.read(s, a)
	s.index.candidates(&m.scratch)
	for i, word := range m.bits {
		for ; word != 0; word &= word - 1 {
			r := &s.rules[i*64+bits.TrailingZeros64(word)]
			if !r.meets(&m.scratch) {
				continue
			}
			if r.limit != nil && r.limit.addCheck(m) {
				continue
			}
			m.Verdict, m.Rule, m.Limit = r.verdict, r.name, r.limit
			m.Checks, m.Unlimited = m.Checks[:0], m.Unlimited[:0]
			return
		}
	}
	if len(m.Checks)+len(m.Unlimited) > 0 {
		m.Verdict = Limits
	}
}

func (r *rule) meets(m *scratch) bool {
	return r.match.holds(m) && (r.unless.empty() || !r.unless.holds(m))
}

func (c *condition) empty() bool { return len(c.slots) == 0 && c.ip == nil }

func (c *condition) holds(m *scratch) bool {
	for _, s := range c.slots {
		if s.anyOf.first(m.values[s.slot]) < 0 {
			return false
		}
	}
	return c.ip == nil || c.ip.Contains(m.ip)
}

// read takes in what the rules of s ask of a request.
func (m *scratch) read(s *Set, a *Attrs) {
	if m.set != s {
		*m = scratch{
			set:    s,
			values: make([][]byte, s.slots.n),
			bits:   make([]uint64, len(s.index.always)),
			seen:   make([]uint64, s.index.postings),
			parts:  make([][]byte, len(s.parts)),
		}
		if s.schedules > 0 {
			m.periods = make([]period, len(s.limits))
		}
	}
	for _, slot := range m.filled {
		m.values[slot] = nil
	}
	for _, part := range m.made {
		m.parts[part] = nil
	}
	m.filled, m.made, m.text = m.filled[:0], m.made[:0], m.text[:0]
	m.turn++

	m.ip, m.nowUS = a.IP.Unmap().WithZone(""), a.NowUS
	m.host = appendHost(m.host[:0], a.Host)
	m.values[slotPath], m.values[slotHost] = a.Path, m.host
	m.values[slotMethod], m.values[slotZone] = a.Method, a.Zone
	headers := m.values[slotNamed : slotNamed+len(s.slots.headers)]
	clear(headers[copy(headers, a.Headers):])
	if s.slots.cookieHeader > 0 {
		m.values[s.slots.cookieHeader] = a.Cookie
	}
	if len(s.slots.cookies) > 0 {
		m.readCookies(a.Cookie)
	}
	if len(s.slots.queries) > 0 {
		m.readQuery(a.Query)
	}
}

// HeaderNames is the request headers that the limits read, in lower case: Attrs.Headers has their
// values in this order. "cookie" is never among them, it is Attrs.Cookie.
func (s *Set) HeaderNames() []string { return s.slots.headers }

// Limits is all limits, by name.
func (s *Set) Limits() []*Limit { return s.limits }

// Limit is the limit of a name; the error names those that there are.
func (s *Set) Limit(name string) (*Limit, error) {
	names := make([]string, len(s.limits))
	for i, l := range s.limits {
		if names[i] = l.Name; l.Name == name {
			return l, nil
		}
	}
	return nil, fmt.Errorf("limit %q: no such limit, want one of %s", name, strings.Join(names, ", "))
}

// Rules is the names of the deny rules (Deny) or the allow rules (Allow), in order.
func (s *Set) Rules(v Verdict) []string {
	var names []string
	for i := range s.rules {
		if r := &s.rules[i]; r.verdict == v && r.limit == nil {
			names = append(names, r.name)
		}
	}
	return names
}

// Overrides is how many keys have numbers of their own.
func (s *Set) Overrides() int {
	n := 0
	for i := range s.spec.limits {
		n += len(s.spec.limits[i].overrides)
	}
	return n
}

// Schedules is how many there are. Attrs.NowUS is read if there is one.
func (s *Set) Schedules() int { return s.schedules }

// HoldMaxUS is the longest that an answer may be held, in microseconds.
func (s *Set) HoldMaxUS() int64 { return s.spec.holdMaxUS }
