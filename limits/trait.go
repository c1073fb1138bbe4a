package limits

import (
	"math"
	"net/netip"
	"slices"
	"strings"
)

// A trait is something that a request has.
type trait struct {
	kind traitKind
	slot int // traitExact, traitPrefix
	text string
	ip   netip.Prefix
}

type traitKind uint8

const (
	traitExact   traitKind = iota // the value of a slot
	traitPrefix                   // what it begins with
	traitSegment                  // a segment of the path
	traitLabel                    // a label of the host
	traitIP                       // a prefix that the client's address is in
)

// longestPrefix bounds the lengths of beginnings, each of which costs a request a lookup.
const longestPrefix = 32

// An offer is one thing that a match names: for each of its patterns the traits to choose from, each of
// which every value that meets the pattern has.
type offer [][]trait

// rarest takes the offer whose most frequent trait is the least frequent: one trait a pattern. It is
// empty when nothing is on offer.
func rarest(offers []offer, count map[trait]int) []trait {
	var best []trait
	bestMost := math.MaxInt
	for _, o := range offers {
		var chosen []trait
		most := 0
		for _, traits := range o {
			t := slices.MinFunc(traits, func(a, b trait) int { return count[a] - count[b] })
			chosen = append(chosen, t)
			most = max(most, count[t])
		}
		if most < bestMost {
			best, bestMost = chosen, most
		}
	}
	return best
}

// offers is what a rule may be filed under.
func (s *slots) offers(match *condSpec) []offer {
	var all []offer
	add := func(patterns []string, traitsOf func(string) []trait) {
		var o offer
		for _, p := range patterns {
			traits := traitsOf(p)
			if len(traits) == 0 {
				return // whatever meets p would not be found
			}
			o = append(o, traits)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	text := func(slot int) func(string) []trait {
		return func(p string) []trait { return textTraits(slot, p, 0) }
	}
	add(match.path, func(p string) []trait {
		return append(textTraits(slotPath, p, '/'), pieceTraits(traitSegment, p[1:], "/")...)
	})
	add(match.host, func(p string) []trait {
		return append(textTraits(slotHost, p, '.'), pieceTraits(traitLabel, p, ".")...)
	})
	add(match.method, text(slotMethod))
	add(match.zone, text(slotZone))
	for _, n := range match.header {
		add(n.patterns, text(s.header(n.name)))
	}
	for _, n := range match.cookie {
		add(n.patterns, text(s.cookies[n.name]))
	}
	for _, n := range match.query {
		add(n.patterns, text(s.queries[n.name]))
	}
	var prefixes offer
	for _, p := range match.ip {
		prefixes = append(prefixes, []trait{{kind: traitIP, ip: p}})
	}
	if len(prefixes) > 0 {
		all = append(all, prefixes)
	}
	return all
}

// textTraits is the whole of a literal pattern, or what stands before the first "*" of another.
func textTraits(slot int, p string, sep byte) []trait {
	star := strings.IndexByte(p, '*')
	if star < 0 {
		return []trait{{kind: traitExact, slot: slot, text: p}}
	}
	begin := p[:star]
	if sep != 0 && strings.HasPrefix(p[star:], "**") {
		begin = strings.TrimSuffix(begin, string(sep)) // "/v1/**" meets "/v1"
	}
	if begin = begin[:min(len(begin), longestPrefix)]; begin == "" {
		return nil
	}
	return []trait{{kind: traitPrefix, slot: slot, text: begin}}
}

// pieceTraits is the segments or labels of a pattern that have no "*".
func pieceTraits(kind traitKind, pieces, sep string) []trait {
	if !strings.Contains(pieces, "*") {
		return nil // textTraits has the whole of it
	}
	var traits []trait
	for s := range strings.SplitSeq(pieces, sep) {
		if !strings.Contains(s, "*") {
			traits = append(traits, trait{kind: kind, text: s})
		}
	}
	return traits
}
