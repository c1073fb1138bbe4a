package limits

import (
	"errors"
	"fmt"
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

// Prefixes is a set of prefixes: whether an address is in any costs a lookup for each length.
type Prefixes struct {
	lengths prefixLengths
	all     map[netip.Prefix]struct{}
}

// ParsePrefixes reads addresses and CIDR prefixes. The error says which is neither.
func ParsePrefixes(list []string) (*Prefixes, error) {
	var prefixes []netip.Prefix
	for _, s := range list {
		p, err := parsePrefix(s)
		if err != nil {
			return nil, fmt.Errorf("%q, want %w", s, err)
		}
		prefixes = append(prefixes, p)
	}
	return newPrefixes(prefixes), nil
}

func newPrefixes(prefixes []netip.Prefix) *Prefixes {
	s := &Prefixes{all: make(map[netip.Prefix]struct{}, len(prefixes))}
	for _, p := range prefixes {
		s.lengths.add(p)
		s.all[p] = struct{}{}
	}
	return s
}

// Contains says whether addr is in any of them. The zero Addr is not.
func (s *Prefixes) Contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, length := range s.lengths.of(addr) {
		prefix, _ := addr.Prefix(length)
		if _, ok := s.all[prefix]; ok {
			return true
		}
	}
	return false
}

// parsePrefix reads an address or CIDR. ::ffff:a.b.c.d is a.b.c.d, and bits beyond the length are
// dropped. The error is what would be right.
func parsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		addr, err := netip.ParseAddr(s)
		if err != nil || addr.Zone() != "" {
			return p, errWantPrefix
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return p, errWantPrefix
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), nil
}

var errWantPrefix = errors.New(`an address or CIDR such as "10.0.0.0/8"`)
