package limits

import (
	"math"
	"net/netip"
	"slices"
	"strings"
)

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

// An offer is one thing that a match names: for each of its patterns the tokens to choose from, each of
// which every value that meets the pattern has.
type offer [][]token

// rarest takes the offer whose most frequent token is the least frequent: one token a pattern. It is
// empty when nothing is on offer.
func rarest(offers []offer, count map[token]int) []token {
	var best []token
	bestMost := math.MaxInt
	for _, o := range offers {
		var chosen []token
		most := 0
		for _, tokens := range o {
			t := slices.MinFunc(tokens, func(a, b token) int { return count[a] - count[b] })
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
func (f *fields) offers(match *condSpec) []offer {
	var all []offer
	add := func(patterns []string, tokensOf func(string) []token) {
		var o offer
		for _, p := range patterns {
			tokens := tokensOf(p)
			if len(tokens) == 0 {
				return // whatever meets p would not be found
			}
			o = append(o, tokens)
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
	text := func(slot int) func(string) []token {
		return func(p string) []token { return textTokens(slot, p, 0) }
	}
	add(match.path, func(p string) []token {
		return append(textTokens(slotPath, p, '/'), pieceTokens(tokenSegment, p[1:], "/")...)
	})
	add(match.host, func(p string) []token {
		return append(textTokens(slotHost, p, '.'), pieceTokens(tokenLabel, p, ".")...)
	})
	add(match.method, text(slotMethod))
	add(match.zone, text(slotZone))
	for _, n := range match.header {
		add(n.patterns, text(f.header(n.name)))
	}
	for _, n := range match.cookie {
		add(n.patterns, text(f.cookies[n.name]))
	}
	for _, n := range match.query {
		add(n.patterns, text(f.queries[n.name]))
	}
	var prefixes offer
	for _, p := range match.ip {
		prefixes = append(prefixes, []token{{kind: tokenIP, ip: canonicalPrefix(p)}})
	}
	if len(prefixes) > 0 {
		all = append(all, prefixes)
	}
	return all
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
