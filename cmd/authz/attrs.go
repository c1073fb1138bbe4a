package main

import (
	"bytes"
	"log/slog"
	"slices"

	"github.com/valyala/fasthttp"

	"authz/limits"
	"authz/store"
)

// A request is what is known of one request, and the memory to decide it in. It is used again and again;
// the bytes in it are fasthttp's and end with the request.
type request struct {
	rules   *rules
	attrs   limits.Attrs
	match   limits.Match
	results []store.Result
	local   []limits.Check // what the in-memory store is asked when the store cannot answer

	values  [][]byte // of the fields, then of the headers that limits read
	twice   string   // the header of a field of onlyOnce that came twice
	foreign string   // the header of fieldForeign, if one came
	args    fasthttp.Args
	ignored int    // headers that only a trusted proxy may send
	joined  []byte // header lines of one name, put together
	path    []byte
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
	badTarget // nginx itself answers 400
	saidTwice // a field of onlyOnce
	wrongRoute
	flaws
)

func (f flaw) String() string {
	return [...]string{"", "no_method", "no_uri", "bad_target", "said_twice", "wrong_route"}[f]
}

// read takes the attributes out of the headers. Nothing is kept of those that no route and no limit
// reads.
func (q *request) read(h *fasthttp.RequestHeader, route int, trustedPeer bool) {
	q.begin(q.rules.set)
	q.trusted = trustedPeer
	if routes[route].zoneInURL && trustedPeer {
		defer q.readZone(h.RequestURI())
	}
	for name, value, rest, folded, ok := nextLine(h.RawHeaders()); ok; name, value, rest, folded, ok = nextLine(rest) {
		if folded { // seldom, and fasthttp knows how to put it together
			q.begin(q.rules.set)
			for name, value := range h.AllInOrder() {
				q.take(route, name, value, trustedPeer)
			}
			return
		}
		q.take(route, name, value, trustedPeer)
	}
}

// readZone takes the zone out of the URL of the check.
func (q *request) readZone(target []byte) {
	_, query, _ := bytes.Cut(target, []byte("?"))
	q.args.ParseBytes(query)
	q.values[fieldZone] = q.args.Peek("zone")
}

// begin forgets what was read before, and makes room for what set reads.
func (q *request) begin(set *limits.Set) {
	n := int(fields) + len(set.HeaderNames())
	q.values = slices.Grow(q.values[:0], n)[:n]
	clear(q.values)
	q.joined, q.twice, q.foreign, q.ignored = q.joined[:0], "", "", 0
}

// take reads a header line, if its sender may say that.
func (q *request) take(route int, name, value []byte, trustedPeer bool) {
	if !trustedPeer && onlyFromProxies(name) {
		q.ignored++
		return
	}
	q.put(q.rules.readings[route].of(name), value)
}

// put takes a line of a header; nobody reads nil.
func (q *request) put(h *header, value []byte) {
	if h == nil {
		return
	}
	for _, i := range h.values {
		switch {
		case i == int(fieldForeign):
			q.foreign = h.name
		case i < int(fields) && onlyOnce[i] && q.values[i] != nil:
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
	if i == int(fieldCookie) {
		separator = "; "
	}
	if n := len(before) + len(separator) + len(value); n > cap(before) {
		start := len(q.joined)
		q.joined = slices.Grow(q.joined, 2*n)[:start+2*n]
		before = append(q.joined[start:start:start+2*n], before...)
	}
	return append(append(before, separator...), value...)
}

// resolve makes attributes of the fields. An address that is absent or cannot be read is the zero Addr, unknown:
// the address of the proxy never stands in for a client's.
func (q *request) resolve() flaw {
	f, a := q.values, &q.attrs
	*a = limits.Attrs{Method: f[fieldMethod], Host: f[fieldHost], Zone: f[fieldZone], Cookie: f[fieldCookie], Headers: f[fields:]}
	a.IP, _ = limits.ParseAddr(f[fieldRealIP])
	switch {
	case q.foreign != "":
		return wrongRoute
	case q.twice != "":
		return saidTwice
	}
	uri, ok := f[fieldURI], true
	if url := f[fieldURL]; len(url) > 0 {
		if a.Host, uri, ok = splitURL(url); !ok {
			return badTarget
		}
	}
	switch {
	case len(a.Method) == 0:
		return missingMethod
	case len(uri) == 0:
		return missingURI
	}
	if a.Path, a.Query, ok = limits.Target(q.path, uri); !ok {
		return badTarget
	}
	q.path = a.Path
	return flawless
}

// longestRequestID is that of nginx's $request_id, a UUID or any that others make, and no more.
const longestRequestID = 64

// requestID is what a trusted proxy calls the request, as nginx's $request_id; nil if it is none for a log.
func (q *request) requestID() []byte {
	if !q.trusted || len(q.values[fieldRequestID]) > longestRequestID {
		return nil
	}
	id := q.values[fieldRequestID]
	for _, c := range id {
		if (c < '0' || c > '9') && (lower[c] < 'a' || lower[c] > 'z') && bytes.IndexByte([]byte("-_.:+/="), c) < 0 {
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

// blamed is the header that is missing, came twice, or is of another route.
func (q *request) blamed(f flaw, route int) string {
	switch {
	case f == missingMethod:
		return "X-Original-Method"
	case f == missingURI && routes[route].zoneInURL:
		return "X-Original-URL"
	case f == missingURI:
		return "X-Original-URI"
	case f == wrongRoute:
		return q.foreign
	}
	return q.twice
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
