package replay

import (
	"bytes"

	"authz/limits"
)

// A flaw is why a line is no request that the service would have been asked about.
type flaw uint8

const (
	flawless flaw = iota
	otherFormat
	noTime
	noRequest
	noHTTP
	badTarget
	badHost
	tooLong
	fromFuture
	flaws
)

func (f flaw) String() string {
	return [flaws]string{"", "not in this format", "no time", "no request", "not HTTP", "a target that nginx answers with 400",
		"a host that nginx answers with 400", "longer than 1 MiB", "from the future"}[f]
}

// An attrsReader makes of lines the attributes that the service would have had.
type attrsReader struct {
	fields  *fields
	clock   clock
	path    []byte
	cookie  []byte
	headers [][]place  // by policy: of its HeaderNames
	values  [][][]byte // by policy: what Attrs.Headers has
	attrs   limits.Attrs
}

func newAttrsReader(n *fieldNames, policies []*policy) *attrsReader {
	r := &attrsReader{fields: newFields(n)}
	for _, p := range policies {
		places := n.headersOf(p.set)
		r.headers = append(r.headers, places)
		r.values = append(r.values, make([][]byte, len(places)))
	}
	return r
}

// read reads a line. What it makes of it is valid until the next; attrsOf has it for each policy.
func (r *attrsReader) read(line []byte, b *bound) (timeUS int64, f flaw) {
	if len(line) > longestLine {
		return 0, tooLong
	}
	if !b.read(line, r.fields) {
		return 0, otherFormat
	}
	timeUS, ok := r.clock.of(r.fields)
	if !ok {
		return 0, noTime
	}
	v := r.fields.values
	method, target, host, f := r.target(b)
	if f != flawless {
		return 0, f
	}
	a := limits.Attrs{Method: method, Zone: v[placeZone], Query: v[placeQuery], Cookie: v[placeCookie], NowUS: timeUS}
	// nginx serves the host of a full URL in the request line, whatever the Host header names.
	for _, text := range [...][]byte{v[placeHost], host, v[placeHTTPHost], v[placeServerName]} {
		if len(a.Host) == 0 {
			a.Host = text
		}
	}
	if len(v[placeHost]) == 0 && !limits.HostIsValid(a.Host) { // nginx's $host is valid, whatever a client sent
		return 0, badHost
	}
	if a.Path, f = r.pathOf(target, &a, b); f != flawless {
		return 0, f
	}
	a.IP, _ = limits.ParseAddr(v[placeAddress])
	if len(a.Cookie) == 0 && len(r.fields.names.cookies) > 0 {
		a.Cookie = r.joinCookies()
	}
	r.attrs = a
	return timeUS, flawless
}

// target is what was asked for: the fields of its own, else those of the request line. It is nil when
// $uri alone says it.
func (r *attrsReader) target(b *bound) (method, target, host []byte, f flaw) {
	v := r.fields.values
	method, target = v[placeMethod], v[placeTarget]
	if line := v[placeRequest]; len(line) > 0 {
		lineMethod, lineTarget, ok := splitRequest(line)
		switch {
		case !ok && len(target) == 0:
			return nil, nil, nil, noHTTP
		case len(method) == 0 && len(lineMethod) > 0:
			method = lineMethod
			r.fields.seen[placeMethod] = true
		}
		if len(target) == 0 {
			target = lineTarget
		}
	}
	if len(target) == 0 {
		if len(v[placeURI]) == 0 {
			return nil, nil, nil, noRequest
		}
		return method, nil, nil, flawless
	}
	if urlHost, rest, ok := limits.SplitURL(target); ok { // what is no URL stays a target, for nginx to refuse
		host, target = urlHost, rest
	}
	return method, target, host, flawless
}

// pathOf is the path of the target, and fills in its query; without one, that of $uri, which is decoded
// already.
func (r *attrsReader) pathOf(target []byte, a *limits.Attrs, b *bound) ([]byte, flaw) {
	uri, fromURI := r.fields.values[placeURI], target == nil
	if fromURI && (b.json || b.ltsv) {
		target = uri // which others than nginx write as it was sent, and nginx in a way that reads alike but for rare bytes
	}
	if target != nil {
		path, query, ok := limits.Target(r.path, target)
		if ok {
			r.path = path
			if len(query) > 0 {
				a.Query = query
				r.fields.seen[placeQuery] = true
			}
			return path, flawless
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
	return uri, flawless
}

// attrsOf is the attributes for a policy.
func (r *attrsReader) attrsOf(policy int) *limits.Attrs {
	r.attrs.Headers = r.values[policy]
	for i, at := range r.headers[policy] {
		r.attrs.Headers[i] = r.fields.values[at]
	}
	return &r.attrs
}

// joinCookies makes a Cookie header of those that the log has one by one.
func (r *attrsReader) joinCookies() []byte {
	n := r.fields.names
	r.cookie = r.cookie[:0]
	for i, name := range n.cookies {
		value := r.fields.values[n.cookie(i)]
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
