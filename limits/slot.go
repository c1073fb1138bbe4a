package limits

import (
	"bytes"
	"slices"
)

// Every value that a rule can ask for has a slot: path, host, method and zone, then the headers, the
// Cookie header as a whole, cookies and query arguments that the limits file names.
const (
	slotPath = iota
	slotHost
	slotMethod
	slotZone
	slotNamed // the first header
)

// slots says which slot a name has.
type slots struct {
	n            int      // how many there are
	headers      []string // in lower case, in order: slotNamed and following
	cookieHeader int      // 0: nobody asks for it
	cookies      map[string]int
	queries      map[string]int
}

// newSlots gives a slot to every name in the spec.
func newSlots(sp *spec) slots {
	s := slots{cookies: map[string]int{}, queries: map[string]int{}}
	headers := map[string]bool{}
	condition := func(c *condSpec) {
		for _, n := range c.header {
			headers[n.name] = true
		}
		for _, n := range c.cookie {
			s.cookies[n.name] = 0
		}
		for _, n := range c.query {
			s.queries[n.name] = 0
		}
	}
	rule := func(r *ruleSpec) {
		condition(&r.match)
		condition(&r.unless)
	}
	for i := range sp.deny {
		rule(&sp.deny[i])
	}
	for i := range sp.allow {
		rule(&sp.allow[i])
	}
	for i := range sp.limits {
		l := &sp.limits[i]
		rule(&l.ruleSpec)
		if l.costHeader != "" {
			headers[l.costHeader] = true
		}
		for _, p := range l.key {
			switch p.kind {
			case partHeader:
				headers[p.name] = true
			case partCookie:
				s.cookies[p.name] = 0
			case partQuery:
				s.queries[p.name] = 0
			}
		}
	}
	s.number(headers)
	return s
}

func (s *slots) number(headers map[string]bool) {
	s.n = slotNamed
	for name := range headers {
		if name != "cookie" {
			s.headers = append(s.headers, name)
			s.n++
		}
	}
	slices.Sort(s.headers)
	if headers["cookie"] {
		s.cookieHeader = s.n
		s.n++
	}
	for _, names := range []map[string]int{s.cookies, s.queries} {
		for name := range names {
			names[name] = s.n
			s.n++
		}
	}
}

func (s *slots) header(name string) int {
	if name == "cookie" {
		return s.cookieHeader
	}
	at, _ := slices.BinarySearch(s.headers, name)
	return slotNamed + at
}

// present is the value of a name that came without one: missing, but the first of its name.
var present = []byte{}

// fill gives a slot its value, unless an earlier one of the same name did.
func (m *scratch) fill(slot int, value []byte) {
	if m.values[slot] != nil {
		return
	}
	if len(value) == 0 {
		value = present
	}
	m.values[slot] = value
	m.filled = append(m.filled, slot)
}

// readCookies reads "name=value; name=value". Values are raw, without the blanks around them.
func (m *scratch) readCookies(header []byte) {
	for len(header) > 0 {
		var pair []byte
		pair, header, _ = bytes.Cut(header, []byte(";"))
		name, value, ok := bytes.Cut(pair, []byte("="))
		if !ok {
			continue
		}
		if slot, ok := m.set.slots.cookies[string(trimBlanks(name))]; ok {
			m.fill(slot, trimBlanks(value))
		}
	}
}

// readQuery reads "name=value&name=value", form-decoded.
func (m *scratch) readQuery(query []byte) {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		name, value, _ := bytes.Cut(pair, []byte("="))
		if encoded(name) {
			m.lookup = appendDecoded(m.lookup[:0], name)
			name = m.lookup
		}
		slot, ok := m.set.slots.queries[string(name)]
		if !ok {
			continue
		}
		if encoded(value) {
			start := len(m.text)
			m.text = appendDecoded(m.text, value)
			value = m.text[start:]
		}
		m.fill(slot, value)
	}
}

// QueryValue appends the value of the first parameter of a name to dst, both form-decoded.
func QueryValue(dst, query []byte, name string) []byte {
	start := len(dst)
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte("&"))
		key, value, _ := bytes.Cut(pair, []byte("="))
		dst = appendDecoded(dst[:start], key)
		if string(dst[start:]) == name {
			return appendDecoded(dst[:start], value)
		}
	}
	return dst[:start]
}

func encoded(b []byte) bool { return bytes.IndexByte(b, '%') >= 0 || bytes.IndexByte(b, '+') >= 0 }

// appendDecoded decodes "+" and "%20"; a "%" without two hex digits stays, as browsers and URL
// libraries that do not refuse it have it.
func appendDecoded(dst, b []byte) []byte {
	for i := 0; i < len(b); i++ {
		c := b[i]
		if c == '+' {
			c = ' '
		} else if c == '%' {
			if decoded, ok := unhex(b[i+1:]); ok {
				c = decoded
				i += 2
			}
		}
		dst = append(dst, c)
	}
	return dst
}

func trimBlanks(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}
