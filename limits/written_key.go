package limits

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Everybody is what people read where an identity is empty: for key = [].
const Everybody = "everybody"

// CheckOf is the check of cost 1 of the limit of this name and of a key that a person has written, by the numbers in
// force at nowUS. The key may be
//
//   - what an override would be for: the values of its parts as requests have them, joined by "|", such as
//     203.0.113.9; of a secret also sha256: and its 64 hex digits;
//   - an identity, as explain and logs say it: ip=203.0.113.9;
//   - the whole Redis key.
//
// The error says what is wrong, and what a key of the limit looks like; of a limit by secrets it has what was written as
// a digest. An identity that is a digest as a whole does not tell which override would be its.
func (s *Set) CheckOf(limit, key string, nowUS int64) (Check, error) {
	l, err := s.Limit(limit)
	if err != nil {
		return Check{}, err
	}
	identity, parts, ip, err := s.readKey(&l.keying, key)
	if err != nil {
		return Check{}, fmt.Errorf("limit.%s: key %s: %w", l.Name, s.shown(&l.keying, key), err)
	}
	rate, _ := l.InForce(nowUS)
	if o := l.keying.overrides; o != nil && parts != nil {
		rate = o.rateOf(ip, s.restOf(&l.keying, parts), rate)
	}
	if rate.Unlimited || rate.Count == 0 {
		return Check{}, fmt.Errorf("limit.%s: key %s: its rate is %s, for which nothing is counted", l.Name, s.shown(&l.keying, key), rate)
	}
	return Check{Limit: l, Rate: rate, Key: []byte(l.keying.head + identity + l.keying.tail), Cost: 1}, nil
}

// readKey reads a key: its identity, and its parts with the address among them, unless the identity is a digest.
func (s *Set) readKey(k *keying, key string) (identity string, parts []string, ip netip.Addr, err error) {
	if inner, ok := strings.CutPrefix(key, k.head); ok && strings.HasSuffix(inner, k.tail) {
		key = strings.TrimSuffix(inner, k.tail)
	}
	if len(k.parts) == 0 {
		if key != "" && key != Everybody {
			return "", nil, ip, errors.New(`want "": everybody shares one bucket`)
		}
		return "", nil, ip, nil
	}
	if isShortDigest(key) {
		return key, nil, ip, nil
	}
	words := []string{key}
	if len(k.parts) > 1 {
		words = strings.Split(key, "|")
	}
	if len(words) != len(k.parts) {
		return "", nil, ip, fmt.Errorf("its number of parts is %d, want %d, such as %s", len(words), len(k.parts), s.likeThis(k))
	}
	for i, at := range k.parts {
		text, addr, err := s.readPart(k, at, words[i])
		if err != nil {
			return "", nil, ip, err
		}
		if addr.IsValid() {
			ip = addr
		}
		parts = append(parts, text)
	}
	identity = strings.Join(parts, "|")
	if len(identity) > longestIdentity {
		identity = string(appendDigest(nil, []byte(identity)))
	}
	return identity, parts, ip, nil
}

// readPart is one part as it stands in an identity, and the address if it is one.
func (s *Set) readPart(k *keying, at int, word string) (text string, ip netip.Addr, err error) {
	p := &s.parts[at]
	value, named := strings.CutPrefix(word, p.head)
	if k.missing == missingIP && p.kind != partIP && !named { // the ip that stands for it
		if ipValue, ok := strings.CutPrefix(word, "ip="); ok {
			p, value, named = &s.parts[k.ipPart], ipValue, true
		}
	}
	switch {
	case p.kind == partIP:
		return s.readIP(k, p.head, value)
	case p.kind == partPath:
		for _, known := range p.texts {
			if value == known || string(appendValue(nil, []byte(value), false)) == known {
				return p.head + known, ip, nil
			}
		}
		return "", ip, fmt.Errorf("%s is no pattern of match.path, want %s", s.shown(k, value), strings.Join(p.texts, " or "))
	case value == "" && k.missing != missingShare:
		return "", ip, fmt.Errorf("nothing for %s, want %s", strings.TrimSuffix(p.head, "="), s.likeThis(k))
	case named && isShortDigest(value):
		return p.head + value, ip, nil
	case p.secret && strings.HasPrefix(value, digestPrefix):
		if !isDigest(value) {
			return "", ip, errors.New("want sha256: and 64 hex digits")
		}
		return string(appendOverrideValue(nil, p, strings.ToLower(value))), ip, nil
	case named:
		raw, ok := unescape(value)
		if !ok {
			return "", ip, fmt.Errorf("%s, want %%XX only as an escape of two hex digits", s.shown(k, value))
		}
		return string(appendValue([]byte(p.head), raw, p.secret)), ip, nil
	}
	if p.kind == partHost {
		value = string(appendHost(nil, []byte(value)))
	}
	return string(appendValue([]byte(p.head), []byte(value), p.secret)), ip, nil
}

// readIP is the group of an address, or of a prefix that is no wider.
func (s *Set) readIP(k *keying, head, value string) (text string, ip netip.Addr, err error) {
	if value == "unknown" {
		return head + value, ip, nil
	}
	ip, ok := ParseAddr([]byte(value))
	if prefix, err := parsePrefix(value); !ok && err == nil {
		ip = prefix.Addr()
		group := appendIP(nil, ip, s.spec.ipv4Prefix, s.spec.ipv6Prefix)
		if g, _ := parsePrefix(string(group)); prefix.Bits() < g.Bits() {
			return "", ip, fmt.Errorf("%s has many buckets, want an address, or a group such as %s", value, group)
		}
	} else if !ok {
		return "", ip, fmt.Errorf("%s is no address, want %s", s.shown(k, value), s.likeThis(k))
	}
	return string(appendIP([]byte(head), ip, s.spec.ipv4Prefix, s.spec.ipv6Prefix)), ip, nil
}

// likeThis is what a key of the limit looks like, for errors.
func (s *Set) likeThis(k *keying) string {
	var values, identity []string
	for _, at := range k.parts {
		p := &s.parts[at]
		value := "VALUE"
		switch p.kind {
		case partIP:
			value = "203.0.113.9"
		case partPath:
			value = p.texts[0]
		}
		values, identity = append(values, value), append(identity, p.head+value)
	}
	text := fmt.Sprintf("%q, or what explain says of it: %q", strings.Join(values, "|"), strings.Join(identity, "|"))
	if k.missing == missingIP {
		text += "; ip=203.0.113.9 stands for a part that is missing"
	}
	return text
}

// shown is what somebody has written of a key, which may be a secret that stands at the wrong place.
func (s *Set) shown(k *keying, text string) string {
	for _, at := range k.parts {
		if s.parts[at].secret && text != "" {
			return string(appendDigest(nil, []byte(text)))
		}
	}
	return strconv.Quote(text)
}

// restOf is appendRest, of parts that were written.
func (s *Set) restOf(k *keying, parts []string) (rest []byte) {
	for i, at := range k.parts {
		if s.parts[at].kind != partIP {
			rest = append(append(rest, parts[i]...), '|')
		}
	}
	return rest
}

// isShortDigest says whether text is what appendDigest writes.
func isShortDigest(text string) bool {
	return len(text) == 1+2*digestBytes && text[0] == '*' && strings.Trim(text[1:], "0123456789abcdef") == ""
}

// unescape undoes appendEscaped.
func unescape(text string) ([]byte, bool) {
	var raw bytes.Buffer
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			raw.WriteByte(text[i])
			continue
		}
		c, ok := unhex([]byte(text[i+1:]))
		if !ok {
			return nil, false
		}
		raw.WriteByte(c)
		i += 2
	}
	return raw.Bytes(), true
}
