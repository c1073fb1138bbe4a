package limits

import (
	"math"
	"net/netip"
	"slices"
	"strings"
)

// An index finds the few rules that a request can meet, so that a thousand cost what ten do. Each rule
// is filed under tokens, at least one of which a request must have to meet it: all of one thing that
// its match names, such as every path. What a request meets it finds by its own tokens; each rule
// found is then asked in full. A rule of which no token is known is asked every time.
type index struct {
	always   []uint64 // one bit a rule: those without a token
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

// A posting is the rules that are filed under one token.
type posting struct {
	id    int
	rules []int
}

// A token is something that a request has.
type token struct {
	kind tokenKind
	slot int // tokenExact, tokenPrefix
	text string
	ip   netip.Prefix
}

type tokenKind uint8

const (
	tokenExact   tokenKind = iota // the value of a slot
	tokenPrefix                   // what it begins with
	tokenSegment                  // a segment of the path
	tokenLabel                    // a label of the host
	tokenIP                       // a prefix that the client's address is in
)

// longestPrefix bounds the lengths of beginnings, each of which costs a request a lookup.
const longestPrefix = 32

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

// add sets the bits of a posting's rules, once in a request: a path may repeat a segment.
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
func newIndex(f *fields, matches []*condSpec) index {
	x := index{
		always:   make([]uint64, (len(matches)+63)/64),
		exact:    make([]map[string]posting, f.slots),
		prefix:   make([]map[string]posting, f.slots),
		lengths:  make([][]int, f.slots),
		segments: map[string]posting{},
		labels:   map[string]posting{},
		ip:       map[netip.Prefix]posting{},
	}
	offers := make([][][][]token, len(matches))
	count := map[token]int{}
	for i, match := range matches {
		offers[i] = f.tokens(match)
		for _, offer := range offers[i] {
			for _, pattern := range offer {
				for _, t := range pattern {
					count[t]++
				}
			}
		}
	}
	for i := range matches {
		tokens := rarest(offers[i], count)
		if len(tokens) == 0 {
			x.always[i/64] |= 1 << (i % 64)
		}
		for _, t := range tokens {
			x.file(i, t)
		}
	}
	for slot := range f.slots {
		if x.exact[slot] != nil || x.prefix[slot] != nil {
			x.slots = append(x.slots, slot)
		}
	}
	return x
}

// rarest takes the offer whose most frequent token is the least frequent: one token a pattern. It is
// empty when nothing is on offer.
func rarest(offers [][][]token, count map[token]int) []token {
	var best []token
	bestCount := math.MaxInt
	for _, offer := range offers {
		var tokens []token
		most := 0
		for _, pattern := range offer {
			t := slices.MinFunc(pattern, func(a, b token) int { return count[a] - count[b] })
			tokens = append(tokens, t)
			most = max(most, count[t])
		}
		if most < bestCount {
			best, bestCount = tokens, most
		}
	}
	return best
}

func (x *index) file(rule int, t token) {
	switch t.kind {
	case tokenExact:
		fileUnder(x, &x.exact[t.slot], t.text, rule)
	case tokenPrefix:
		fileUnder(x, &x.prefix[t.slot], t.text, rule)
		if lengths := &x.lengths[t.slot]; !slices.Contains(*lengths, len(t.text)) {
			*lengths = append(*lengths, len(t.text))
		}
	case tokenSegment:
		fileUnder(x, &x.segments, t.text, rule)
	case tokenLabel:
		fileUnder(x, &x.labels, t.text, rule)
	case tokenIP:
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
	if !slices.Contains(p.rules, rule) {
		p.rules = append(p.rules, rule)
	}
	(*lists)[key] = p
}

// tokens is what a rule may be filed under: an offer for each thing that its match names, in which
// every pattern has one token or several to choose from.
func (f *fields) tokens(match *condSpec) [][][]token {
	var offers [][][]token
	offer := func(patterns []string, tokens func(string) []token) {
		var all [][]token
		for _, p := range patterns {
			t := tokens(p)
			if len(t) == 0 {
				return
			}
			all = append(all, t)
		}
		if len(all) > 0 {
			offers = append(offers, all)
		}
	}
	text := func(slot int) func(string) []token {
		return func(p string) []token { return textTokens(slot, p, 0) }
	}
	offer(match.path, func(p string) []token {
		return append(textTokens(slotPath, p, '/'), pieceTokens(tokenSegment, p[1:], "/")...)
	})
	offer(match.host, func(p string) []token {
		return append(textTokens(slotHost, p, '.'), pieceTokens(tokenLabel, p, ".")...)
	})
	offer(match.method, text(slotMethod))
	offer(match.zone, text(slotZone))
	for _, n := range match.header {
		offer(n.patterns, text(f.header(n.name)))
	}
	for _, n := range match.cookie {
		offer(n.patterns, text(f.cookies[n.name]))
	}
	for _, n := range match.query {
		offer(n.patterns, text(f.queries[n.name]))
	}
	var prefixes [][]token
	for _, p := range match.ip {
		prefixes = append(prefixes, []token{{kind: tokenIP, ip: canonicalPrefix(p)}})
	}
	if len(prefixes) > 0 {
		offers = append(offers, prefixes)
	}
	return offers
}

// textTokens is the whole of a literal pattern, or what stands before the first "*" of another.
func textTokens(slot int, p string, sep byte) []token {
	star := strings.IndexByte(p, '*')
	if star < 0 {
		return []token{{kind: tokenExact, slot: slot, text: p}}
	}
	begin := p[:star]
	if sep != 0 && strings.HasPrefix(p[star:], "**") {
		begin = strings.TrimSuffix(begin, string(sep)) // "/v1/**" meets "/v1"
	}
	if begin = begin[:min(len(begin), longestPrefix)]; begin == "" {
		return nil
	}
	return []token{{kind: tokenPrefix, slot: slot, text: begin}}
}

// pieceTokens is the segments or labels of a pattern that have no "*".
func pieceTokens(kind tokenKind, pieces, sep string) []token {
	if !strings.Contains(pieces, "*") {
		return nil // textTokens has the whole of it
	}
	var tokens []token
	for s := range strings.SplitSeq(pieces, sep) {
		if !strings.Contains(s, "*") {
			tokens = append(tokens, token{kind: kind, text: s})
		}
	}
	return tokens
}
