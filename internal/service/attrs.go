package service

import (
	"bytes"
	"cmp"
	"log/slog"
	"net/netip"
	"slices"

	"github.com/valyala/fasthttp"

	"authz/internal/header"
	"authz/internal/route"
	"authz/internal/store"
	"authz/limits"
)

// A request is what is known of one request, and the memory to decide it in. It is used again and again;
// the bytes in it are fasthttp's and end with the request.
type request struct {
	rules   *Rules
	attrs   limits.Attrs
	match   limits.Match
	results []store.Result
	local   []limits.Check // what the in-memory store is asked when the store cannot answer

	route   *route.Route
	values  [][]byte // of the fields, then of the headers that limits read
	twice   string   // the header of a field of onlyOnce that came twice
	foreign string   // a header of another proxy
	ignored int      // headers that only a trusted proxy may send
	joined  []byte   // header lines of one name, put together
	path    []byte
	zone    []byte
	text    []byte
	trusted bool // the peer is, that sent it
	holds   bool // one of service.held is this request's
	broken  bool // left by a panic as it was
}

// A flaw is why the attributes of a request are not known.
type flaw uint8

const (
	flawless flaw = iota
	missingMethod
	missingURI
	badTarget  // nginx itself answers 400
	badHost    // likewise
	saidTwice  // a field of onlyOnce
	wrongRoute // a header of another proxy
	flaws
)

func (f flaw) String() string {
	return [...]string{"", "no_method", "no_uri", "bad_target", "bad_host", "said_twice", "wrong_route"}[f]
}

// read takes the attributes out of the headers of a check at a route. It keeps nothing of those that neither the
// route nor a limit reads.
func (q *request) read(h *fasthttp.RequestHeader, at int, trustedPeer bool) {
	q.begin(q.rules.Set)
	q.route, q.trusted = &route.All[at], trustedPeer
	if q.zone = q.zone[:0]; q.route.ZoneInURL {
		q.zone = route.ZoneIn(q.zone, h.RequestURI())
	}
	headers := q.rules.readings[at]
	for name, value, rest, folded, ok := header.NextLine(h.RawHeaders()); ok; name, value, rest, folded, ok = header.NextLine(rest) {
		if folded { // seldom, and fasthttp knows how to put it together
			q.begin(q.rules.Set)
			for name, value := range h.AllInOrder() {
				q.take(headers, name, value)
			}
			return
		}
		q.take(headers, name, value)
	}
}

// begin forgets what was read before, and makes room for what set reads.
func (q *request) begin(set *limits.Set) {
	n := int(route.Fields) + len(set.HeaderNames())
	q.values = slices.Grow(q.values[:0], n)[:n]
	clear(q.values)
	q.joined, q.twice, q.foreign, q.ignored = q.joined[:0], "", "", 0
}

// take reads a header line, if its sender may say that.
func (q *request) take(headers reading, name, value []byte) {
	if !q.trusted && onlyFromProxies(name) {
		q.ignored++
		return
	}
	q.put(headers.of(name), value)
}

// put takes a line of a header; nobody reads nil.
func (q *request) put(h *readHeader, value []byte) {
	if h == nil {
		return
	}
	for _, i := range h.values {
		if i == int(route.ForeignHeader) {
			q.foreign = h.name
		}
		if i < int(route.Fields) && route.OnlyOnce[i] && q.values[i] != nil {
			q.twice = h.name
		}
		q.values[i] = q.join(i, value)
	}
}

// join is the value that i has, and one more. What is put together gets room for as much again: a client
// may send thousands of lines, and a copy for each would be the square of what it has sent.
func (q *request) join(i int, value []byte) []byte {
	before, separator := q.values[i], ", "
	if before == nil {
		return slices.Clip(value)
	}
	if i == int(route.Cookie) {
		separator = "; "
	}
	if n := len(before) + len(separator) + len(value); n > cap(before) {
		start := len(q.joined)
		q.joined = slices.Grow(q.joined, 2*n)[:start+2*n]
		before = append(q.joined[start:start:start+2*n], before...)
	}
	return append(append(before, separator...), value...)
}

// resolve makes attributes of the fields. unreadable is what the proxy named as the client's address, if that is no
// address: the address is unknown then, as it is without any.
func (q *request) resolve(trusted *limits.Prefixes) (why flaw, unreadable []byte) {
	f, a := q.values, &q.attrs
	*a = limits.Attrs{Method: f[route.Method], Host: f[route.Host], Zone: f[route.Zone],
		Cookie: f[route.Cookie], Headers: f[route.Fields:]}
	if q.route.ZoneInURL {
		a.Zone = q.zone
	}
	a.IP, unreadable = q.address(trusted)
	target := f[route.Target]
	switch {
	case q.foreign != "":
		return wrongRoute, unreadable
	case q.twice != "":
		return saidTwice, unreadable
	case len(a.Method) == 0:
		return missingMethod, unreadable
	case len(target)+len(f[route.URL]) == 0:
		return missingURI, unreadable
	}
	ok := true
	if url := f[route.URL]; len(url) > 0 {
		if a.Host, target, ok = limits.SplitURL(url); !ok {
			return badTarget, unreadable
		}
	}
	if !limits.HostIsValid(a.Host) {
		return badHost, unreadable
	}
	if a.Path, a.Query, ok = limits.Target(q.path, target); !ok {
		return badTarget, unreadable
	}
	q.path = a.Path
	return flawless, unreadable
}

// address is the client's address: the zero Addr where the proxy names none, or one that cannot be read. The address
// of the proxy never stands in for it: a rule for loopback would then hold for everybody.
func (q *request) address(trusted *limits.Prefixes) (addr netip.Addr, unreadable []byte) {
	ok := true
	named := q.values[route.IP]
	if len(named) > 0 {
		addr, ok = limits.ParseAddr(named)
	} else {
		named = q.values[route.ForwardedFor]
		addr, ok = limits.ForwardedFor(named, trusted)
	}
	if !ok {
		return netip.Addr{}, named
	}
	return addr, nil
}

// longestRequestID is that of nginx's $request_id, a UUID or any that others make, and no more.
const longestRequestID = 64

// requestID is what a trusted proxy calls the request, as nginx's $request_id; nil if it is none for a log.
func (q *request) requestID() []byte {
	if !q.trusted || len(q.values[route.RequestID]) > longestRequestID {
		return nil
	}
	id := q.values[route.RequestID]
	for _, c := range id {
		if (c < '0' || c > '9') && (header.Lower[c] < 'a' || header.Lower[c] > 'z') && bytes.IndexByte([]byte("-_.:+/="), c) < 0 {
			return nil
		}
	}
	return id
}

// logged is what a log line says of the request: its id, if it has one.
func (q *request) logged() slog.Attr {
	id := q.requestID()
	if id == nil {
		return slog.Attr{} // which handlers leave out
	}
	return slog.String("request_id", string(id))
}

// blamed is the header that is missing, came twice, or is another proxy's.
func (q *request) blamed(f flaw) string {
	switch f {
	case missingMethod:
		return q.route.Header(route.Method)
	case missingURI:
		return cmp.Or(q.route.Header(route.Target), q.route.Header(route.URL))
	case wrongRoute:
		return q.foreign
	}
	return q.twice
}
