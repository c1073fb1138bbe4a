package main

import (
	"strings"

	"authz/limits"
)

// A field is what a header says about the request that is asked about.
type field uint8

const (
	fieldMethod field = iota
	fieldURI
	fieldURL
	fieldHost
	fieldRealIP
	fieldZone
	fieldForeign // a header that another kind of proxy sends: this is the wrong route
	fieldCookie
	fieldRequestID
	fields
)

// onlyOnce are the fields that a proxy sets to one value. A second line of one means that a client's
// own was let through, and nobody can tell which is which.
var onlyOnce = [fields]bool{fieldMethod: true, fieldURI: true, fieldURL: true, fieldHost: true, fieldZone: true}

// A route is a URL that a proxy asks: the headers in which that proxy describes the request, and the answers that it
// understands. A route reads no header that its proxy merely lets through: such a header is the client's.
type route struct {
	path      string
	reads     []read
	zoneInURL bool // the zone is ?zone= of the URL that the operator has written
	status    [verdicts]int
}

// A read is a header, its name as net/textproto spells it, and what it says.
type read struct {
	header string
	field  field
}

// Headers that tell one kind of proxy from another.
const (
	ingressURL    = "X-Original-Url"
	forwardMethod = "X-Forwarded-Method"
)

// foreign says what is right for a header that another kind of proxy sends.
var foreign = map[string]string{
	ingressURL:    "ingress-nginx sends it, want /ingress in the URL of the check",
	forwardMethod: "Traefik, Caddy and APISIX send it, and there is no route for them yet",
}

var routes = [...]route{{
	path: "/nginx",
	reads: []read{
		{"X-Original-Method", fieldMethod},
		{"X-Original-Uri", fieldURI},
		{"X-Original-Host", fieldHost},
		{"X-Real-Ip", fieldRealIP},
		{"X-Authz-Zone", fieldZone},
		{ingressURL, fieldForeign},
		{forwardMethod, fieldForeign},
		{"Cookie", fieldCookie},
		{"X-Request-Id", fieldRequestID},
	},
	status: authRequest,
}, {
	path: "/ingress",
	reads: []read{
		{"X-Original-Method", fieldMethod},
		{ingressURL, fieldURL},
		{"X-Real-Ip", fieldRealIP},
		{forwardMethod, fieldForeign},
		{"Cookie", fieldCookie},
		{"X-Request-Id", fieldRequestID},
	},
	zoneInURL: true,
	status:    authRequest,
}}

// authRequest are the answers for nginx's auth_request, which makes 500 of everything but 2xx, 401 and 403.
var authRequest = [verdicts]int{admitted: 200, limited: 403, blocked: 403, unavailable: 403}

// routeOf finds the place in routes of a raw request target: the path itself, or followed by "?" or "/".
// It is -1 for any other.
func routeOf(target []byte) int {
	for i := range routes {
		path := routes[i].path
		if len(target) >= len(path) && string(target[:len(path)]) == path {
			if rest := target[len(path):]; len(rest) == 0 || rest[0] == '?' || rest[0] == '/' {
				return i
			}
		}
	}
	return -1
}

// A reading is which of request.values each header goes to, whatever its name's case: to the field that
// a route takes from it, to the place after the fields that limits have it at, or both. It is looked up
// by the length of the name first.
type reading [][]header

type header struct {
	name, lower string
	values      []int
}

// newReading is for a route's reads, and the headers that set reads.
func newReading(reads []read, set *limits.Set) (r reading) {
	for _, read := range reads {
		r.add(read.header, int(read.field))
	}
	for i, name := range set.HeaderNames() {
		r.add(canonical(name), int(fields)+i)
	}
	return r
}

func (r *reading) add(name string, value int) {
	h := r.of([]byte(name))
	if h == nil {
		for len(*r) <= len(name) {
			*r = append(*r, nil)
		}
		alike := &(*r)[len(name)]
		*alike = append(*alike, header{name: name, lower: strings.ToLower(name)})
		h = &(*alike)[len(*alike)-1]
	}
	h.values = append(h.values, value)
}

// of is nil for a header that nobody reads.
func (r reading) of(name []byte) *header {
	if len(name) < len(r) {
		for i := range r[len(name)] {
			if h := &r[len(name)][i]; isLower(name, h.lower) {
				return h
			}
		}
	}
	return nil
}

// canonical spells a header name as fasthttp does: a capital first and after each hyphen.
func canonical(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if 'a' <= c && c <= 'z' && (i == 0 || b[i-1] == '-') {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
