package limits

import "net/netip"

// overrides finds the rate of one key among tens of thousands: one map lookup, or one for each length
// of prefix where a part of the key is an address.
type overrides struct {
	byIP    bool          // a part of the key is ip
	lengths prefixLengths // of the addresses
	rates   map[overrideKey]*Rate
}

// An overrideKey is an identity whose ip part is a prefix of the override's own. The text is that of
// the other parts, joined; it is never digested as a whole.
type overrideKey struct {
	ip   netip.Prefix // the zero Prefix where no part is ip
	rest string
}

// find returns the rate for the request's key, or the limit's own.
func (o *overrides) find(k *keying, m *scratch, own *Rate) *Rate {
	m.lookup = k.appendRest(m.lookup[:0], m)
	return o.rateOf(m.ip, m.lookup, own)
}

// rateOf is find of an address, which counts where a part of the key is one, and the other parts.
func (o *overrides) rateOf(ip netip.Addr, rest []byte, own *Rate) *Rate {
	if !o.byIP {
		if rate := o.rates[overrideKey{rest: string(rest)}]; rate != nil {
			return rate
		}
		return own
	}
	for _, length := range o.lengths.of(ip) {
		prefix, _ := ip.Prefix(length)
		if rate := o.rates[overrideKey{prefix, string(rest)}]; rate != nil {
			return rate
		}
	}
	return own
}

// appendRest joins the parts but for ip.
func (k *keying) appendRest(dst []byte, m *scratch) []byte {
	for _, at := range k.parts {
		if m.set.parts[at].kind == partIP {
			continue
		}
		if k.missing == missingIP && m.lacks(at) {
			at = k.ipPart
		}
		dst = append(dst, m.parts[at]...)
		dst = append(dst, '|')
	}
	return dst
}

// newOverrides compiles the overrides of a limit with these parts; nil if there are none.
func (s *Set) newOverrides(specs []overrideSpec, places []int) *overrides {
	if len(specs) == 0 {
		return nil
	}
	o := &overrides{rates: make(map[overrideKey]*Rate, len(specs))}
	for _, sp := range specs {
		var key overrideKey
		var rest []byte
		for i, at := range places {
			if p := &s.parts[at]; p.kind != partIP {
				rest = append(appendOverrideValue(rest, p, sp.values[i]), '|')
				continue
			}
			key.ip, _ = parsePrefix(sp.values[i])
			o.byIP = true
			o.lengths.add(key.ip)
		}
		key.rest = string(rest)
		o.rates[key] = sp.rate
	}
	return o
}

// appendOverrideValue writes a value as the request that has it would. Of a secret the parser has left
// the digest alone.
func appendOverrideValue(dst []byte, p *keyPart, value string) []byte {
	dst = append(dst, p.head...)
	if !p.secret {
		return appendValue(dst, []byte(value), false)
	}
	return append(append(dst, '*'), value[len(digestPrefix):len(digestPrefix)+2*digestBytes]...)
}
