package limits

import (
	"encoding/hex"
	"net/netip"
	"strings"
)

// overrides finds the rate of one key among tens of thousands: one map lookup, or one for each length
// of prefix where a part of the key is an address.
type overrides struct {
	lengths prefixLengths
	rates   map[overrideKey]*Rate
}

// An overrideKey is an identity whose ip part is a prefix of the override's own. The text is that of
// the other parts, joined; it is never digested as a whole.
type overrideKey struct {
	ip   netip.Prefix // the zero Prefix where no part is ip
	rest string
}

// find returns the rate for the request's key, or the limit's own.
func (o *overrides) find(r *limitRule, m *scratch, own *Rate) *Rate {
	m.lookup = r.appendRest(m.lookup[:0], m)
	if rate := o.rates[overrideKey{rest: string(m.lookup)}]; rate != nil {
		return rate
	}
	for _, length := range o.lengths.of(m.ip) {
		prefix, _ := m.ip.Prefix(length)
		if rate := o.rates[overrideKey{prefix, string(m.lookup)}]; rate != nil {
			return rate
		}
	}
	return own
}

// appendRest joins the parts but for ip.
func (r *limitRule) appendRest(dst []byte, m *scratch) []byte {
	for _, at := range r.parts {
		if m.set.parts[at].kind == partIP {
			continue
		}
		if r.missing == missingIP && m.lacks(at) {
			at = r.ipPart
		}
		dst = append(dst, m.parts[at]...)
		dst = append(dst, '|')
	}
	return dst
}

// newOverrides compiles the overrides of a limit with these parts; nil if there are none.
func newOverrides(specs []overrideSpec, parts []keyPart) *overrides {
	if len(specs) == 0 {
		return nil
	}
	o := &overrides{rates: make(map[overrideKey]*Rate, len(specs))}
	for _, sp := range specs {
		var key overrideKey
		var rest []byte
		for i := range parts {
			if parts[i].kind == partIP {
				key.ip = overridePrefix(sp.values[i])
				o.lengths.add(key.ip)
				continue
			}
			rest = appendOverrideValue(rest, &parts[i], sp.values[i])
			rest = append(rest, '|')
		}
		key.rest = string(rest)
		o.rates[key] = sp.rate
	}
	return o
}

// overridePrefix reads an address or CIDR, which the parser has checked.
func overridePrefix(s string) netip.Prefix {
	if p, err := netip.ParsePrefix(s); err == nil {
		return canonicalPrefix(p)
	}
	addr, ok := ParseAddr([]byte(s))
	if !ok {
		panic("BUG: override of the address " + s)
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

// appendOverrideValue writes a value as the request that has it would.
func appendOverrideValue(dst []byte, p *keyPart, value string) []byte {
	dst = append(dst, p.head...)
	switch {
	case p.secret && strings.HasPrefix(value, "sha256:"):
		sum, err := hex.DecodeString(value[len("sha256:"):])
		if err != nil || len(sum) < digestBytes {
			panic("BUG: override of the digest " + value)
		}
		return hex.AppendEncode(append(dst, '*'), sum[:digestBytes])
	case p.kind == partHost:
		return appendValue(dst, appendHost(nil, []byte(value)), false)
	case p.kind == partPath:
		if canonical, err := checkPathPattern(value); err == nil {
			value = canonical
		}
	}
	return appendValue(dst, []byte(value), p.secret)
}
