package limits

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
)

// A keying is how a limit is keyed, and what a request costs.
type keying struct {
	parts   []int // places in Set.parts, in order
	missing missing
	paths   *patternList // match.path, for the part that says which of them matched
	ipPart  int          // the place of the ip part in Set.parts

	cost     int64 // 0: costSlot has it
	costSlot int
	costMax  int64

	head, tail string // what stands in the Redis key before and after the identity
	overrides  *overrides
}

// A keyPart is one part of keys. Its text is head and the value.
type keyPart struct {
	kind   partKind
	slot   int    // but for partIP and partPath
	head   string // "ip=", "header:x-api-key="
	secret bool   // the value is always written as its digest
	// For partPath, which belongs to one limit alone: the whole text, by place of the pattern.
	texts []string
}

const (
	longestValue    = 64  // bytes, before escaping; a longer one is written as its digest
	longestIdentity = 160 // bytes; a longer one is written as its digest
	digestBytes     = 16  // of the SHA-256, written as 32 hex digits after "*"
)

// Identity is whose bucket the check charges, as it stands in the Redis key: "ip=203.0.113.9".
// It is empty when everybody shares one bucket (key = []).
func (c *Check) Identity() []byte {
	if len(c.Limit.keying.parts) == 0 {
		return nil
	}
	at := len(c.Limit.keying.head)
	return c.Key[at : at+bytes.IndexByte(c.Key[at:], '}')]
}

// Who is whose bucket it is, for people.
func (c *Check) Who() string {
	if key := c.Identity(); len(key) > 0 {
		return string(key)
	}
	return Everybody
}

// addCheck adds the check of a limit that the request meets. It is false when the limit blocks the
// request because a part of its key is missing.
func (l *Limit) addCheck(m *Match) bool {
	k := &l.keying
	if k.lacksPart(&m.scratch) {
		m.Missing = append(m.Missing, l)
		switch {
		case k.missing == missingDeny && !l.Shadow:
			return false
		case k.missing == missingDeny || k.missing == missingSkip: // a shadow never blocks
			return true
		}
	}
	m.makeParts(k)
	rate, leftUS := &l.Rate, int64(0)
	if l.schedules != nil {
		p := m.inForce(l)
		rate, leftUS = p.rate, p.untilUS-m.nowUS
	}
	if k.overrides != nil {
		if own := k.overrides.find(k, &m.scratch, rate); own != rate {
			rate, leftUS = own, 0
		}
	}
	if rate.Unlimited {
		m.Unlimited = append(m.Unlimited, l)
		return true
	}
	start := len(m.text)
	m.text = append(m.text, k.head...)
	m.text = k.appendIdentity(m.text, &m.scratch)
	m.text = append(m.text, k.tail...)
	m.Checks = append(m.Checks, Check{Limit: l, Rate: rate, Key: m.text[start:len(m.text):len(m.text)], Cost: k.costOf(&m.scratch), LeftUS: leftUS})
	return true
}

// inForce is the limit's numbers at the time of the request. They are looked up again only when they may
// have changed.
func (m *scratch) inForce(l *Limit) *period {
	p := &m.periods[l.Index]
	if m.nowUS < p.fromUS || m.nowUS >= p.untilUS {
		*p = l.periodAt(m.nowUS)
	}
	return p
}

func (k *keying) lacksPart(m *scratch) bool {
	for _, at := range k.parts {
		if m.lacks(at) {
			return true
		}
	}
	return false
}

func (m *scratch) lacks(part int) bool {
	p := &m.set.parts[part]
	return p.kind != partIP && p.kind != partPath && len(m.values[p.slot]) == 0
}

// Absent names the parts of the limit's key that the request lacks: "header:x-api-key". It is valid until
// the next Match into m.
func (l *Limit) Absent(m *Match) []string {
	var names []string
	for _, at := range l.keying.parts {
		if m.lacks(at) {
			names = append(names, strings.TrimSuffix(m.set.parts[at].head, "="))
		}
	}
	return names
}

// Missing is what the limit says is done when a part of its key is missing: "skip", "deny", "share" or "ip"; "" if
// none can be.
func (l *Limit) Missing() string { return l.keying.missing.String() }

// MostCost is the highest cost that one request can have.
func (l *Limit) MostCost() int64 { return max(l.keying.cost, l.keying.costMax) }

// KeyParts are the parts of a limit's key, as its identity names them: "ip|header:x-api-key". It is empty when
// everybody shares one bucket.
func (s *Set) KeyParts(l *Limit) string {
	names := make([]string, len(l.keying.parts))
	for i, at := range l.keying.parts {
		names[i] = strings.TrimSuffix(s.parts[at].head, "=")
	}
	return strings.Join(names, "|")
}

// makeParts writes the parts of the limit's key that no earlier limit had.
func (m *scratch) makeParts(k *keying) {
	for _, at := range k.parts {
		if m.lacks(at) && k.missing == missingIP {
			at = k.ipPart
		}
		if m.parts[at] != nil {
			continue
		}
		p := &m.set.parts[at]
		start := len(m.text)
		m.text = append(m.text, p.head...)
		switch p.kind {
		case partIP:
			m.text = appendIP(m.text, m.ip, m.set.spec.ipv4Prefix, m.set.spec.ipv6Prefix)
		case partPath:
			m.text = append(m.text, p.texts[k.paths.first(m.values[slotPath])]...)
		default:
			m.text = appendValue(m.text, m.values[p.slot], p.secret)
		}
		m.parts[at] = m.text[start:len(m.text):len(m.text)]
		m.made = append(m.made, at)
	}
}

// appendIdentity joins the parts.
func (k *keying) appendIdentity(dst []byte, m *scratch) []byte {
	start := len(dst)
	for i, at := range k.parts {
		if i > 0 {
			dst = append(dst, '|')
		}
		if k.missing == missingIP && m.lacks(at) {
			at = k.ipPart
		}
		dst = append(dst, m.parts[at]...)
	}
	if len(dst)-start > longestIdentity {
		dst = appendDigest(dst[:start], dst[start:])
	}
	return dst
}

// costOf is a plain whole number from the header; anything else costs the most.
func (k *keying) costOf(m *scratch) int64 {
	if k.cost > 0 {
		return k.cost
	}
	value := m.values[k.costSlot]
	if len(value) == 0 || len(value) > len("9007199254740992") || value[0] == '0' {
		return k.costMax
	}
	var cost int64
	for _, c := range value {
		if c < '0' || c > '9' {
			return k.costMax
		}
		cost = cost*10 + int64(c-'0')
	}
	return min(cost, k.costMax)
}

// appendValue writes a value so that two different ones never look alike, a secret one so that
// nobody can read it.
func appendValue(dst, value []byte, secret bool) []byte {
	if len(value) > 0 && (secret || len(value) > longestValue) {
		return appendDigest(dst, value)
	}
	return appendEscaped(dst, value)
}

// appendDigest writes "*", which is escaped everywhere else, and 32 hex digits of the SHA-256.
func appendDigest(dst, b []byte) []byte {
	sum := sha256.Sum256(b)
	return hex.AppendEncode(append(dst, '*'), sum[:digestBytes])
}

// plain is the bytes that stand for themselves in an identity.
var plain = func() (is [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~:/@+-=" {
		is[c] = true
	}
	return is
}()

func appendEscaped(dst, b []byte) []byte {
	const digits = "0123456789ABCDEF"
	for _, c := range b {
		if plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', digits[c>>4], digits[c&15])
		}
	}
	return dst
}

// appendIP writes the group of addresses that share a bucket.
func appendIP(dst []byte, ip netip.Addr, ipv4Prefix, ipv6Prefix int) []byte {
	length := ipv6Prefix
	if ip.Is4() {
		length = ipv4Prefix
	}
	if !ip.IsValid() {
		return append(dst, "unknown"...)
	}
	prefix, _ := ip.Prefix(length)
	return appendPrefix(dst, prefix)
}

// appendPrefix writes a prefix; one that is a single address without its length.
func appendPrefix(dst []byte, prefix netip.Prefix) []byte {
	if prefix.IsSingleIP() {
		return prefix.Addr().AppendTo(dst)
	}
	return prefix.AppendTo(dst)
}

// secretName says whether what a header or query argument of this name holds must not be shown.
func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"key", "token", "secret", "auth", "password"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
