package limits

import (
	"net/netip"
	"slices"
)

// prefixLengths is the lengths that occur among some prefixes, longest first.
type prefixLengths struct{ v4, v6 []int }

func (l *prefixLengths) add(p netip.Prefix) {
	lengths := &l.v6
	if p.Addr().Is4() {
		lengths = &l.v4
	}
	at, found := slices.BinarySearchFunc(*lengths, p.Bits(), func(a, b int) int { return b - a })
	if !found {
		*lengths = slices.Insert(*lengths, at, p.Bits())
	}
}

// of is the lengths to try for an address. The zero Addr has none.
func (l *prefixLengths) of(addr netip.Addr) []int {
	switch {
	case addr.Is4():
		return l.v4
	case addr.Is6():
		return l.v6
	}
	return nil
}

// A prefixSet is some prefixes: whether an address is in any costs a lookup for each length.
type prefixSet struct {
	lengths prefixLengths
	all     map[netip.Prefix]struct{}
}

func newPrefixSet(prefixes []netip.Prefix) *prefixSet {
	s := &prefixSet{all: make(map[netip.Prefix]struct{}, len(prefixes))}
	for _, p := range prefixes {
		p = canonicalPrefix(p)
		s.lengths.add(p)
		s.all[p] = struct{}{}
	}
	return s
}

func (s *prefixSet) contains(addr netip.Addr) bool {
	for _, length := range s.lengths.of(addr) {
		prefix, _ := addr.Prefix(length)
		if _, ok := s.all[prefix]; ok {
			return true
		}
	}
	return false
}

// canonicalPrefix is the prefix without host bits, and IPv4 as such: ::ffff:10.0.0.0/104 is
// 10.0.0.0/8.
func canonicalPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}
