package openresty

import (
	"fmt"
	"net/netip"
	"strings"

	"authz/limits"
)

// request is a request that `authz explain --json` can read: UTF-8, a host that nginx accepts, and an address if any.
func (r dice) request() packRequest {
	q := r.rawRequest()
	for _, s := range []*string{&q.method, &q.host, &q.uri, &q.zone} {
		*s = strings.ToValidUTF8(*s, "ÿ")
	}
	for _, h := range q.headers {
		for i := range h.lines {
			h.lines[i] = strings.ToValidUTF8(h.lines[i], "\u2028")
		}
	}
	if _, ok := limits.ParseAddr([]byte(q.ip)); !ok {
		q.ip = ""
	}
	if !limits.HostIsValid([]byte(q.host)) {
		q.host = ""
	}
	return q
}

// rawRequest is a request of any bytes, most of it such that it meets limits.
func (r dice) rawRequest() packRequest {
	q := packRequest{method: r.one(diceMethods...), host: r.host(), uri: r.target(), ip: r.address(), zone: r.one(diceZones...)}
	for _, s := range []*string{&q.method, &q.host, &q.zone} {
		switch r.IntN(16) {
		case 0:
			*s = ""
		case 1:
			*s = r.bytes()
		}
	}
	for _, name := range diceHeaders {
		if r.in(3) {
			continue
		}
		if r.in(2) {
			name = strings.ToUpper(name)
		}
		h := packHeader{name: name}
		for range 1 + r.IntN(2)*r.IntN(3) {
			h.lines = append(h.lines, r.headerLine(name))
		}
		q.headers = append(q.headers, h)
	}
	return q
}

// bytes is up to 300 bytes of any kind; most are around the 64 from which on a value is digested.
func (r dice) bytes() string {
	b := make([]byte, []int{1, 3, 63, 64, 65, 161, 300}[r.IntN(7)])
	any := r.in(2)
	for i := range b {
		b[i] = 'a' + byte(r.IntN(26))
		if any || r.in(40) {
			b[i] = byte(r.IntN(256))
		}
	}
	return string(b)
}

func (r dice) headerLine(name string) string {
	switch {
	case r.in(12):
		return r.bytes()
	case strings.EqualFold(name, "cookie"):
		return r.pairs(diceCookies, r.one("; ", ";", " ;\t", ";;"))
	case strings.EqualFold(name, "x-cost"):
		return r.one("1", "7", "99", "100", "101", "0", "05", "-1", "1e1", " 3", "3 ", "٣", "999999999999999", "9007199254740990",
			"9007199254740993", "9999999999999999", "18446744073709551617", "")
	}
	return r.one(diceValues...)
}

// pairs is NAME=VALUE as cookies and queries have them, with the accidents that happen to them.
func (r dice) pairs(names []string, separator string) string {
	var list []string
	for range r.IntN(6) {
		pair := r.one(names...) + r.one("=", "=", "=", " = ", "==", "") + r.one(diceValues...)
		switch r.IntN(12) {
		case 0:
			pair = r.one(names...)
		case 1:
			pair = r.one(names...) + "="
		case 2:
			pair = r.one(names...) + "=" + r.bytes()
		case 3:
			pair = "=" + r.one(diceValues...)
		}
		list = append(list, pair)
	}
	return strings.Join(list, separator)
}

// target is a request target in one of its spellings; a few are such that nginx answers 400.
func (r dice) target() string {
	if r.in(4) {
		return r.shortPath()
	}
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString(r.one("/", "/", "/", "/", "//", "/./", "/x/../", "%2f", "/%2e/", "/%2E%2e/"))
		b.WriteString(r.spelled(r.one(diceSegments[r.IntN(len(diceSegments)):]...)))
	}
	path := b.String()
	if !strings.HasPrefix(path, "/") || r.in(10) {
		path = "/" + path
	}
	path += r.one("", "", "", "/", "/.", "/..", "//")
	switch r.IntN(40) {
	case 0:
		path = ""
	case 1:
		path += r.one("%", "%0", "%zz", "%00", "\x01", " ", "\x7f")
	case 2:
		path += r.spelled(r.bytes())
	case 3:
		path = r.one("", "x", "http://h/login", "*") + path
	}
	if r.in(2) {
		return path
	}
	query := r.pairs(diceQueries, r.one("&", "&", "&&", ";"))
	var q strings.Builder
	for _, c := range []byte(query) {
		switch {
		case c == ' ':
			q.WriteString(r.one("+", "%20"))
		case c <= ' ' || c == 0x7f || c == '#' || c == '%':
			fmt.Fprintf(&q, "%%%02X", c)
		case r.in(10):
			fmt.Fprintf(&q, "%%%02x", c)
		default:
			q.WriteByte(c)
		}
	}
	return path + r.one("?", "?", "?", "#", "#?", "??") + q.String() + r.one("", "", "", "#x", "?y=%", "%zz", "&q")
}

// spelled is a segment as a client might write it.
func (r dice) spelled(segment string) string {
	var b strings.Builder
	for _, c := range []byte(segment) {
		if c <= ' ' || c == 0x7f || c == '%' || c == '?' || c == '#' || r.in(8) {
			if c == 0 {
				c = '0'
			}
			fmt.Fprintf(&b, r.one("%%%02x", "%%%02X"), c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (r dice) host() string {
	labels := []string{r.one(diceLabels...)}
	for range r.IntN(4) {
		labels = append(labels, r.one(diceLabels...))
	}
	host := strings.Join(labels, ".")
	if r.in(3) {
		host = strings.ToUpper(host)
	}
	host += r.one("", "", "", ".", "..", ":80", ".:8080", ":", ":1:2")
	if r.in(20) {
		return r.one("[::1]", "[::1]:80", "[::1", "[:80", "]:", "[]:1:2", ":", ".", ".:1", "a..b", "münchen.example", "[a]:.")
	}
	return host
}

// address is an address in one of its spellings; some are none.
func (r dice) address() string {
	prefix := netip.MustParsePrefix(r.one("10.0.0.0/8", "10.1.2.0/24", "192.0.2.0/30", "203.0.113.9/32", "0.0.0.0/0",
		"2001:db8::/32", "2001:db8:1:2::/64", "2001:db8:1:2:ff00::/72", "::/0", "fe80::/64", "::ffff:10.9.0.0/112", "::/120"))
	b := prefix.Addr().AsSlice()
	for i := range b {
		if host := 8*(i+1) - prefix.Bits(); host > 0 {
			b[i] |= byte(r.IntN(256)) & (1<<min(host, 8) - 1) * byte(r.IntN(2))
		}
	}
	addr, _ := netip.AddrFromSlice(b)
	text := addr.String()
	switch r.IntN(12) {
	case 0:
		text = addr.StringExpanded()
	case 1:
		text = strings.ToUpper(text)
	case 2:
		text = " " + text + "\t"
	case 3:
		text += r.one(":80", ":", ":123456", "%eth0", "%", "x", ":1:2", ".1")
	case 4:
		text = "[" + text + "]" + r.one("", ":443", ":", ":123456", ":x", "]")
	case 5:
		text = r.one("", "unknown", "unix:", "1.2.3", "::ffff:1.2.3.4", "fe80::1%eth0.100", strings.Repeat(":", 10000))
	case 6, 7: // a slip
		at := r.IntN(len(text))
		text = text[:at] + r.one("", "", "0", "1", ":", "::", ".", "%", "f", "g", "[", "]", "0000", "1.2.3.4") + text[at+r.IntN(2):]
	}
	return text
}
