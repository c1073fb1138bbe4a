package limits

import (
	"bytes"
	"net/netip"
	"unsafe"
)

// ParseAddr reads a client address as proxies write it: 203.0.113.9, 203.0.113.9:52241, 2001:db8::1,
// [2001:db8::1] or [2001:db8::1]:443. ::ffff:a.b.c.d is a.b.c.d, a zone id (%eth0) is dropped.
func ParseAddr(b []byte) (netip.Addr, bool) {
	b = bytes.Trim(b, " \t")
	if len(b) > 0 && b[0] == '[' {
		end := bytes.IndexByte(b, ']')
		if end < 0 || !portOrNothing(b[end+1:]) || bytes.IndexByte(b[:end], ':') < 0 {
			return netip.Addr{}, false
		}
		b = b[1:end]
	} else if colon := bytes.IndexByte(b, ':'); colon >= 0 && bytes.IndexByte(b[colon+1:], ':') < 0 {
		if !portOrNothing(b[colon:]) {
			return netip.Addr{}, false
		}
		b = b[:colon]
	}
	if zone := bytes.IndexByte(b, '%'); zone >= 0 {
		if zone == len(b)-1 || bytes.IndexByte(b[:zone], ':') < 0 {
			return netip.Addr{}, false
		}
		b = b[:zone]
	}
	const longest = len("0000:0000:0000:0000:0000:ffff:255.255.255.255")
	if len(b) == 0 || len(b) > longest {
		return netip.Addr{}, false
	}
	// ParseAddr keeps its text only in an error, which ends here: nothing holds b.
	addr, err := netip.ParseAddr(unsafe.String(&b[0], len(b)))
	return addr.Unmap(), err == nil
}

// portOrNothing says whether b is empty or ":" and a port.
func portOrNothing(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if b[0] != ':' || len(b) < 2 || len(b) > len(":65535") {
		return false
	}
	for _, c := range b[1:] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// ForwardedFor finds the client in X-Forwarded-For: the last address that is not a trusted proxy's, or the first
// address when all are trusted. The zero Addr stands for no address. An address that cannot be read ends the walk,
// since nothing left of it can be believed: ok is false then.
//
// The caller has checked that the peer itself is trusted.
func ForwardedFor(value []byte, trusted *Prefixes) (client netip.Addr, ok bool) {
	if len(bytes.Trim(value, " \t")) == 0 {
		return netip.Addr{}, true
	}
	for {
		comma := bytes.LastIndexByte(value, ',')
		addr, ok := ParseAddr(value[comma+1:])
		if !ok {
			return netip.Addr{}, false
		}
		if comma < 0 || !trusted.Contains(addr) {
			return addr, true
		}
		value = value[:comma]
	}
}
