package limits

import (
	"net/netip"
	"slices"
)

// An index finds the few rules that a request can meet, so that a thousand cost what ten do. Each rule
// is filed under traits, at least one of which a request must have to meet it: all of one thing that
// its match names, such as every path. What a request meets it finds by its own traits; each rule
// found is then asked in full. A rule of which no trait is known is asked every time.
type index struct {
	always   []uint64 // one bit a rule: those without a trait
	postings int      // how many lists there are

	slots    []int // those that have a list in exact or prefix
	exact    []map[string]posting
	prefix   []map[string]posting
	lengths  [][]int // of the keys of prefix, by slot
	segments map[string]posting
	labels   map[string]posting
	ip       map[netip.Prefix]posting
	ipLength prefixLengths
}

// A posting is the rules that are filed under one trait.
type posting struct {
	id    int
	rules []int
}

// candidates sets the bits of all rules that the request may meet.
func (x *index) candidates(m *scratch) {
	copy(m.bits, x.always)
	for _, slot := range x.slots {
		value := m.values[slot]
		if len(value) == 0 {
			continue
		}
		m.add(x.exact[slot][string(value)])
		for _, length := range x.lengths[slot] {
			if length <= len(value) {
				m.add(x.prefix[slot][string(value[:length])])
			}
		}
	}
	if path := m.values[slotPath]; len(x.segments) > 0 && len(path) > 1 {
		for rest := (pieces{path[1:], '/', true}); rest.some; {
			m.add(x.segments[string(rest.next())])
		}
	}
	if host := m.values[slotHost]; len(x.labels) > 0 && len(host) > 0 {
		for rest := (pieces{host, '.', true}); rest.some; {
			m.add(x.labels[string(rest.next())])
		}
	}
	for _, length := range x.ipLength.of(m.ip) {
		prefix, _ := m.ip.Prefix(length)
		m.add(x.ip[prefix])
	}
}

// add sets the bits of a posting's rules, once in a request: a path may repeat a segment. A posting was
// seen in this request if it holds its turn, so that nothing has to be cleared for the next.
func (m *scratch) add(p posting) {
	if len(p.rules) == 0 || m.seen[p.id] == m.turn {
		return
	}
	m.seen[p.id] = m.turn
	for _, r := range p.rules {
		m.bits[r/64] |= 1 << (r % 64)
	}
}

// newIndex files the rules, whose match is given in their order.
func newIndex(s *slots, matches []*condSpec) index {
	x := index{
		always:   make([]uint64, (len(matches)+63)/64),
		exact:    make([]map[string]posting, s.n),
		prefix:   make([]map[string]posting, s.n),
		lengths:  make([][]int, s.n),
		segments: map[string]posting{},
		labels:   map[string]posting{},
		ip:       map[netip.Prefix]posting{},
	}
	// A rule is filed under the rarest that it can be, so that few requests find it: traits are counted
	// over all rules first.
	offers := make([][]offer, len(matches))
	count := map[trait]int{}
	for i, match := range matches {
		offers[i] = s.offers(match)
		for _, o := range offers[i] {
			for _, traits := range o {
				for _, t := range traits {
					count[t]++
				}
			}
		}
	}
	for i := range matches {
		traits := rarest(offers[i], count)
		if len(traits) == 0 {
			x.always[i/64] |= 1 << (i % 64)
		}
		for _, t := range traits {
			x.file(i, t)
		}
	}
	for slot := range s.n {
		if x.exact[slot] != nil || x.prefix[slot] != nil {
			x.slots = append(x.slots, slot)
		}
	}
	return x
}

func (x *index) file(rule int, t trait) {
	switch t.kind {
	case traitExact:
		fileUnder(x, &x.exact[t.slot], t.text, rule)
	case traitPrefix:
		fileUnder(x, &x.prefix[t.slot], t.text, rule)
		if lengths := &x.lengths[t.slot]; !slices.Contains(*lengths, len(t.text)) {
			*lengths = append(*lengths, len(t.text))
		}
	case traitSegment:
		fileUnder(x, &x.segments, t.text, rule)
	case traitLabel:
		fileUnder(x, &x.labels, t.text, rule)
	case traitIP:
		fileUnder(x, &x.ip, t.ip, rule)
		x.ipLength.add(t.ip)
	}
}

func fileUnder[K comparable](x *index, lists *map[K]posting, key K, rule int) {
	if *lists == nil {
		*lists = map[K]posting{}
	}
	p, known := (*lists)[key]
	if !known {
		p.id = x.postings
		x.postings++
	}
	if n := len(p.rules); n == 0 || p.rules[n-1] != rule { // patterns of one rule may share a trait
		p.rules = append(p.rules, rule)
	}
	(*lists)[key] = p
}
