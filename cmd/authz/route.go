package main

import (
	"slices"
	"strings"

	"authz/internal/decision"
	"authz/internal/header"
	"authz/limits"
)

// A field is what a header says about the request.
type field uint8

const (
	fieldMethod       field = iota
	fieldTarget             // path and query
	fieldURL                // a whole URL: host, path and query
	fieldHost               // a host alone
	fieldIP                 // one address
	fieldForwardedFor       // addresses, each added by the next proxy
	fieldZone
	fieldCookie
	fieldRequestID
	fieldForeign // another proxy's own header
	fields
)

// onlyOnce are the fields that a proxy sets to one value. A second line of one is a client's own that was let
// through, and cannot be told from the proxy's.
var onlyOnce = [fields]bool{fieldMethod: true, fieldTarget: true, fieldURL: true, fieldHost: true, fieldZone: true}

// A route is a URL that a proxy asks: what the proxy says of a request, and the statuses that it understands.
//
// A route reads only headers that its proxy always sets. A header that the proxy merely lets through is the client's,
// and opens every limit.
type route struct {
	path      string
	reads     []read
	zoneInURL bool // the parameter zone of the route's own URL is the zone
	foreign   []foreign
	status    [decision.Verdicts]int
}

// A read is a header, and the field that it is.
type read struct {
	header string
	field  field
}

// A foreign header comes from another proxy than the route's. A request with one is malformed: that proxy lets the
// client send the headers of this route.
type foreign struct{ header, cure string }

// ofForwardAuth is a header that Traefik, Caddy and APISIX set.
var ofForwardAuth = foreign{"X-Forwarded-Method",
	"want no such header: no route is for Traefik, Caddy or APISIX"}

var routes = [...]route{{
	path: "/nginx",
	reads: []read{
		{"X-Original-Method", fieldMethod},
		{"X-Original-URI", fieldTarget},
		{"X-Original-Host", fieldHost},
		{"X-Real-IP", fieldIP},
		{"X-Authz-Zone", fieldZone},
		{"Cookie", fieldCookie},
		{"X-Request-ID", fieldRequestID},
	},
	foreign: []foreign{
		{"X-Original-URL", "want /ingress, the route for ingress-nginx"},
		ofForwardAuth,
	},
	// auth_request makes 500 of everything but 2xx, 401 and 403.
	status: [decision.Verdicts]int{decision.Admitted: 200, decision.Limited: 403, decision.Blocked: 403, decision.Unavailable: 403},
}, {
	// ingress-nginx hands on every other header as the client sent it: X-Request-ID too.
	path: "/ingress",
	reads: []read{
		{"X-Original-Method", fieldMethod},
		{"X-Original-URL", fieldURL},
		{"X-Real-IP", fieldIP},
		{"Cookie", fieldCookie},
	},
	zoneInURL: true,
	foreign:   []foreign{ofForwardAuth},
	status:    [decision.Verdicts]int{decision.Admitted: 200, decision.Limited: 403, decision.Blocked: 403, decision.Unavailable: 403},
}}

// header is the name of the header that a field is read from, "" if the route reads none.
func (r *route) header(f field) string {
	for _, read := range r.reads {
		if read.field == f {
			return read.header
		}
	}
	return ""
}

// cure is what to do about a foreign header.
func (r *route) cure(header string) string {
	for _, f := range r.foreign {
		if f.header == header {
			return f.cure
		}
	}
	return ""
}

// reading is what the route takes from headers, and what the limits of set take. A limit reads the own header of
// another route as absent: on this route it is the client's.
func (r *route) reading(set *limits.Set) reading {
	var hidden []string
	for i := range routes {
		for _, other := range routes[i].reads {
			if onlyFromProxies([]byte(other.header)) && r.header(other.field) != other.header {
				hidden = append(hidden, strings.ToLower(other.header))
			}
		}
	}
	reads := slices.Clone(r.reads)
	for _, f := range r.foreign {
		reads = append(reads, read{f.header, fieldForeign})
	}
	return newReading(reads, set, hidden...)
}

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
type reading [][]readHeader

type readHeader struct {
	name, lower string
	values      []int
}

// newReading is for the reads of a route, and for the headers that set reads but those that are hidden from it.
func newReading(reads []read, set *limits.Set, hidden ...string) (r reading) {
	for _, read := range reads {
		r.add(read.header, int(read.field))
	}
	for i, name := range set.HeaderNames() {
		if !slices.Contains(hidden, name) {
			r.add(header.Canonical(name), int(fields)+i)
		}
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
		*alike = append(*alike, readHeader{name: name, lower: strings.ToLower(name)})
		h = &(*alike)[len(*alike)-1]
	}
	h.values = append(h.values, value)
}

// of is nil for a header that nobody reads.
func (r reading) of(name []byte) *readHeader {
	if len(name) < len(r) {
		for i := range r[len(name)] {
			if h := &r[len(name)][i]; header.IsLower(name, h.lower) {
				return h
			}
		}
	}
	return nil
}
