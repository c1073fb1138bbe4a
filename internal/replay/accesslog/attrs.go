package accesslog

import (
	"bytes"

	"authz/limits"
)

// A Flaw is why a line is no request that the service would have been asked about.
type Flaw uint8

const (
	Flawless Flaw = iota
	otherFormat
	noTime
	noRequest
	noHTTP
	badTarget
	badHost
	tooLong
	FromFuture
	Flaws
)

func (f Flaw) String() string {
	return [Flaws]string{"", "not in this format", "no time", "no request", "not HTTP", "a target that nginx answers with 400",
		"a host that nginx answers with 400", "longer than 1 MiB", "from the future"}[f]
}

// LongestLine is in bytes: no request that nginx takes is as long.
const LongestLine = 1 << 20

// An AttrsReader makes of lines the attributes that the service would have had.
type AttrsReader struct {
	Fields  *fields
	clock   clock
	path    []byte
	cookie  []byte
	headers [][]Place  // by set: of its HeaderNames
	values  [][][]byte // by set: what Attrs.Headers has
	Attrs   limits.Attrs
}

func NewAttrsReader(n *FieldNames, sets []*limits.Set) *AttrsReader {
	r := &AttrsReader{Fields: newFields(n)}
	for _, set := range sets {
		places := n.headersOf(set)
		r.headers = append(r.headers, places)
		r.values = append(r.values, make([][]byte, len(places)))
	}
	return r
}

// Read reads a line. What it makes of it is valid until the next; attrsOf has it for each policy.
func (r *AttrsReader) Read(line []byte, b *Bound) (timeUS int64, f Flaw) {
	if len(line) > LongestLine {
		return 0, tooLong
	}
	if !b.read(line, r.Fields) {
		return 0, otherFormat
	}
	timeUS, ok := r.clock.of(r.Fields)
	if !ok {
		return 0, noTime
	}
	v := r.Fields.Values
	method, target, host, f := r.target(b)
	if f != Flawless {
		return 0, f
	}
	a := limits.Attrs{Method: method, Zone: v[PlaceZone], Query: v[PlaceQuery], Cookie: v[PlaceCookie], NowUS: timeUS}
	// nginx serves the host of a full URL in the request line, whatever the Host header names.
	for _, text := range [...][]byte{v[PlaceHost], host, v[PlaceHTTPHost], v[PlaceServerName]} {
		if len(a.Host) == 0 {
			a.Host = text
		}
	}
	if len(v[PlaceHost]) == 0 && !limits.HostIsValid(a.Host) { // nginx's $host is valid, whatever a client sent
		return 0, badHost
	}
	if a.Path, f = r.pathOf(target, &a, b); f != Flawless {
		return 0, f
	}
	a.IP, _ = limits.ParseAddr(v[PlaceAddress])
	if len(a.Cookie) == 0 && len(r.Fields.names.Cookies) > 0 {
		a.Cookie = r.joinCookies()
	}
	r.Attrs = a
	return timeUS, Flawless
}

// target is what was asked for: the fields of its own, else those of the request line. It is nil when
// $uri alone says it.
func (r *AttrsReader) target(b *Bound) (method, target, host []byte, f Flaw) {
	v := r.Fields.Values
	method, target = v[PlaceMethod], v[PlaceTarget]
	if line := v[PlaceRequest]; len(line) > 0 {
		lineMethod, lineTarget, ok := splitRequest(line)
		switch {
		case !ok && len(target) == 0:
			return nil, nil, nil, noHTTP
		case len(method) == 0 && len(lineMethod) > 0:
			method = lineMethod
			r.Fields.Seen[PlaceMethod] = true
		}
		if len(target) == 0 {
			target = lineTarget
		}
	}
	if len(target) == 0 {
		if len(v[placeURI]) == 0 {
			return nil, nil, nil, noRequest
		}
		return method, nil, nil, Flawless
	}
	if urlHost, rest, ok := limits.SplitURL(target); ok { // what is no URL stays a target, for nginx to refuse
		host, target = urlHost, rest
	}
	return method, target, host, Flawless
}

// pathOf is the path of the target, and fills in its query; without one, that of $uri, which is decoded
// already.
func (r *AttrsReader) pathOf(target []byte, a *limits.Attrs, b *Bound) ([]byte, Flaw) {
	uri, fromURI := r.Fields.Values[placeURI], target == nil
	if fromURI && (b.json || b.ltsv) {
		target = uri // which others than nginx write as it was sent, and nginx in a way that reads alike but for rare bytes
	}
	if target != nil {
		path, query, ok := limits.Target(r.path, target)
		if ok {
			r.path = path
			if len(query) > 0 {
				a.Query = query
				r.Fields.Seen[PlaceQuery] = true
			}
			return path, Flawless
		}
		if !fromURI {
			return nil, badTarget
		}
	}
	if uri[0] != '/' {
		return nil, badTarget
	}
	if n := len(uri); n > 1 && uri[n-1] == '/' {
		uri = uri[:n-1]
	}
	return uri, Flawless
}

// AttrsOf is the attributes for a policy.
func (r *AttrsReader) AttrsOf(policy int) *limits.Attrs {
	r.Attrs.Headers = r.values[policy]
	for i, at := range r.headers[policy] {
		r.Attrs.Headers[i] = r.Fields.Values[at]
	}
	return &r.Attrs
}

// joinCookies makes a Cookie header of those that the log has one by one.
func (r *AttrsReader) joinCookies() []byte {
	n := r.Fields.names
	r.cookie = r.cookie[:0]
	for i, name := range n.Cookies {
		value := r.Fields.Values[n.Cookie(i)]
		if len(value) == 0 || bytes.IndexByte(value, ';') >= 0 {
			continue
		}
		if len(r.cookie) > 0 {
			r.cookie = append(r.cookie, "; "...)
		}
		r.cookie = append(append(append(r.cookie, name...), '='), value...)
	}
	return r.cookie
}

// splitRequest cuts "GET /login?x=1 HTTP/1.1". The protocol may be absent, as in HTTP/0.9; a target alone
// is what some logs call the request.
func splitRequest(line []byte) (method, target []byte, ok bool) {
	if line[0] == '/' && bytes.IndexByte(line, ' ') < 0 {
		return nil, line, true
	}
	method, target, ok = bytes.Cut(line, []byte(" "))
	if !ok || len(method) == 0 || len(method) > 32 {
		return nil, nil, false
	}
	for _, c := range method {
		if (c < 'A' || c > 'Z') && c != '_' && c != '-' {
			return nil, nil, false
		}
	}
	if at := bytes.LastIndexByte(target, ' '); at >= 0 && bytes.HasPrefix(target[at+1:], []byte("HTTP/")) {
		target = target[:at]
	}
	return method, target, len(target) > 0
}
