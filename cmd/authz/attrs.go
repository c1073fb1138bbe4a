package main

import (
	"bytes"
	"net"
	"net/netip"

	"github.com/valyala/fasthttp"

	"authz/limits"
	"authz/store"
)

// A field is what a header says about the request that is asked about.
type field uint8

const (
	fieldMethod field = iota
	fieldURI
	fieldURL
	fieldHost
	fieldForwardedHost
	fieldOwnHost
	fieldRealIP
	fieldForwardedFor
	fieldZone
	fieldCookie
	fields
)

// onlyOnce are the fields that a proxy sets to one value. A second line of one means that a client's
// own was let through, and nobody can tell which is which.
var onlyOnce = [fields]bool{fieldMethod: true, fieldURI: true, fieldURL: true, fieldHost: true, fieldZone: true}

// A route is a URL that a proxy asks: how it says what the request is, and how it wants the answer.
type route struct {
	path   string
	reads  []read
	status [verdicts]int
}

// A read is a header, its name as net/textproto spells it, and what it says.
type read struct {
	header string
	field  field
}

var routes = [...]route{{
	path: "/nginx",
	reads: []read{
		{"X-Original-Method", fieldMethod},
		{"X-Original-Uri", fieldURI},
		{"X-Original-Url", fieldURL},
		{"X-Original-Host", fieldHost},
		{"X-Forwarded-Host", fieldForwardedHost},
		{"Host", fieldOwnHost},
		{"X-Real-Ip", fieldRealIP},
		{"X-Forwarded-For", fieldForwardedFor},
		{"X-Authz-Zone", fieldZone},
		{"Cookie", fieldCookie},
	},
	// auth_request makes 500 of everything but 2xx, 401 and 403.
	status: [verdicts]int{admitted: 200, limited: 403, blocked: 403, unavailable: 403},
}}

// routeOf finds the route of a raw request target: the path itself, or followed by "?" or "/".
func routeOf(target []byte) *route {
	for i := range routes {
		r := &routes[i]
		if len(target) >= len(r.path) && string(target[:len(r.path)]) == r.path {
			if rest := target[len(r.path):]; len(rest) == 0 || rest[0] == '?' || rest[0] == '/' {
				return r
			}
		}
	}
	return nil
}

// A request is what is known of one request, and the memory to decide it in. It is used again and again;
// the bytes in it are fasthttp's and end with the request.
type request struct {
	rules   *rules
	attrs   limits.Attrs
	match   limits.Match
	results []store.Result
	local   []limits.Check // what the in-memory store is asked when the store cannot answer

	fields  [fields][]byte
	headers [][]byte // as rules.headers
	twice   string   // the header of a field of onlyOnce that came twice
	ignored int      // headers that only a trusted proxy may send
	joined  []byte   // header lines of one name, put together
	path    []byte
	text    []byte
	holds   bool // one of service.held is this request's
	broken  bool // left by a panic as it was
}

// A flaw is why the attributes of a request are not known.
type flaw uint8

const (
	flawless flaw = iota
	missingMethod
	missingURI
	badTarget // nginx itself answers 400
	saidTwice // a field of onlyOnce
	flaws
)

func (f flaw) String() string {
	return [...]string{"", "no_method", "no_uri", "bad_target", "said_twice"}[f]
}

// read takes the attributes out of the headers. Nothing is kept of those that no route and no limit
// reads.
func (q *request) read(h *fasthttp.RequestHeader, r *route, trustedPeer bool) {
	q.fields = [fields][]byte{}
	q.headers = append(q.headers[:0], make([][]byte, len(q.rules.headers))...)
	q.joined, q.twice, q.ignored = q.joined[:0], "", 0
	for name, value := range h.AllInOrder() {
		if !trustedPeer && onlyFromProxies(name) {
			q.ignored++
			continue
		}
		for _, read := range r.reads {
			if string(name) != read.header {
				continue
			}
			if onlyOnce[read.field] && q.fields[read.field] != nil {
				q.twice = read.header
			}
			separator := ", "
			if read.field == fieldCookie {
				separator = "; "
			}
			q.fields[read.field] = q.join(q.fields[read.field], separator, value)
			break
		}
		for i, want := range q.rules.headers {
			if string(name) == want {
				q.headers[i] = q.join(q.headers[i], ", ", value)
				break
			}
		}
	}
}

func (q *request) join(before []byte, separator string, value []byte) []byte {
	if before == nil {
		return value
	}
	start := len(q.joined)
	q.joined = append(append(append(q.joined, before...), separator...), value...)
	return q.joined[start:]
}

var proxyPrefixes = [...]string{"X-Original-", "X-Forwarded-", "X-Real-Ip", "X-Authz-"}

// onlyFromProxies says whether a header is taken from trusted peers only.
func onlyFromProxies(name []byte) bool {
	for _, prefix := range proxyPrefixes {
		if len(name) >= len(prefix) && string(name[:len(prefix)]) == prefix {
			return true
		}
	}
	return false
}

// resolve makes attributes of the fields. ipKnown is false when a header named an address that cannot be
// read, and the peer stands in for it.
func (q *request) resolve(peer netip.Addr, trusted *limits.Prefixes) (why flaw, ipKnown bool) {
	f, a := &q.fields, &q.attrs
	uri, urlHost := f[fieldURI], []byte(nil)
	if url := f[fieldURL]; len(url) > 0 {
		host, target, ok := splitURL(url)
		if !ok {
			return badTarget, true
		}
		urlHost = host
		if len(uri) == 0 {
			uri = target
		}
	}
	*a = limits.Attrs{Method: f[fieldMethod], Zone: f[fieldZone], Cookie: f[fieldCookie], Headers: q.headers}
	a.Host = firstOf(f[fieldHost], urlHost, f[fieldForwardedHost], f[fieldOwnHost])
	a.IP, ipKnown = q.address(peer, trusted)
	var ok bool
	switch {
	case q.twice != "":
		return saidTwice, ipKnown
	case len(a.Method) == 0:
		return missingMethod, ipKnown
	case len(uri) == 0:
		return missingURI, ipKnown
	}
	if a.Path, a.Query, ok = limits.Target(q.path, uri); !ok {
		return badTarget, ipKnown
	}
	q.path = a.Path
	return flawless, ipKnown
}

// blamed is the header that is missing, or came twice.
func (q *request) blamed(f flaw) string {
	switch f {
	case missingMethod:
		return "X-Original-Method"
	case missingURI:
		return "X-Original-URI"
	}
	return q.twice
}

func (q *request) address(peer netip.Addr, trusted *limits.Prefixes) (addr netip.Addr, known bool) {
	if real := q.fields[fieldRealIP]; len(real) > 0 {
		if addr, ok := limits.ParseAddr(real); ok {
			return addr, true
		}
		return peer, false
	}
	return limits.ForwardedFor(q.fields[fieldForwardedFor], peer, trusted)
}

func firstOf(values ...[]byte) []byte {
	for _, v := range values {
		if len(v) > 0 {
			return v
		}
	}
	return nil
}

// splitURL cuts http://host/path?query into host and target; a target alone has no host. The host in it
// is what a client sent, and nginx lets it contain "?" and "#": a URL that can be read in two ways is
// refused, or "Host: x?" would hide the path.
func splitURL(url []byte) (host, target []byte, ok bool) {
	if url[0] == '/' || url[0] == '?' {
		return nil, url, true
	}
	_, rest, ok := bytes.Cut(url, []byte("://"))
	if !ok {
		return nil, nil, false
	}
	switch end := bytes.IndexAny(rest, "/?#"); {
	case end < 0:
		return rest, []byte("/"), true
	case rest[end] == '/' || rest[end] == '?' && bytes.IndexByte(rest, '/') < 0:
		return rest[:end], rest[end:], true
	}
	return nil, nil, false
}

// peers says which peers are proxies whose headers are believed.
type peers struct {
	trusted *limits.Prefixes
	unix    bool
}

// of is the peer's address, the zero Addr for one on a unix socket, and whether it is trusted.
func (p *peers) of(remote net.Addr) (addr netip.Addr, trusted bool) {
	switch r := remote.(type) {
	case *net.TCPAddr:
		addr = r.AddrPort().Addr().Unmap().WithZone("")
		return addr, p.trusted.Contains(addr)
	case *net.UnixAddr:
		return addr, p.unix
	}
	return addr, false
}
