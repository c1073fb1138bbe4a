// Package route has a row of data for each proxy that asks: which URL, and what it says of a request in which headers.
package route

import (
	"bytes"

	"authz/limits"
)

// ZoneIn appends the parameter zone of a request target.
func ZoneIn(dst, target []byte) []byte {
	target, _, _ = bytes.Cut(target, []byte("#"))
	_, query, _ := bytes.Cut(target, []byte("?"))
	return limits.QueryValue(dst, query, "zone")
}

// A Field is what a header says about the request.
type Field uint8

const (
	Method       Field = iota
	Target             // path and query
	URL                // a whole URL: host, path and query
	Host               // a host alone
	IP                 // one address
	ForwardedFor       // addresses, each added by the next proxy
	Zone
	Cookie
	RequestID
	ForeignHeader // another proxy's own header
	Fields
)

// OnlyOnce are the fields that a proxy sets to one value. A second line of one is a client's own that was let
// through, and cannot be told from the proxy's.
var OnlyOnce = [Fields]bool{Method: true, Target: true, URL: true, Host: true, Zone: true}

// A Route is a URL that a proxy asks: what the proxy says of a request.
//
// A route reads only headers that its proxy always sets. A header that the proxy merely lets through is the client's,
// and opens every limit.
type Route struct {
	Path      string
	Reads     []Read
	ZoneInURL bool // the parameter zone of the route's own URL is the zone
	Foreign   []foreign
}

// A Read is a header, and the field that it is.
type Read struct {
	Header string
	Field  Field
}

// A foreign header comes from another proxy than the route's. A request with one is malformed: that proxy lets the
// client send the headers of this route.
type foreign struct{ Header, Cure string }

// ofForwardAuth is a header that Traefik, Caddy and APISIX set.
var ofForwardAuth = foreign{"X-Forwarded-Method",
	"want no such header: no route is for Traefik, Caddy or APISIX"}

// All are the routes.
var All = [...]Route{{
	Path: "/nginx",
	Reads: []Read{
		{"X-Original-Method", Method},
		{"X-Original-URI", Target},
		{"X-Original-Host", Host},
		{"X-Real-IP", IP},
		{"X-Authz-Zone", Zone},
		{"Cookie", Cookie},
		{"X-Request-ID", RequestID},
	},
	Foreign: []foreign{
		{"X-Original-URL", "want /ingress, the route for ingress-nginx"},
		ofForwardAuth,
	},
}, {
	// ingress-nginx hands on every other header as the client sent it: X-Request-ID too.
	Path: "/ingress",
	Reads: []Read{
		{"X-Original-Method", Method},
		{"X-Original-URL", URL},
		{"X-Real-IP", IP},
		{"Cookie", Cookie},
	},
	ZoneInURL: true,
	Foreign:   []foreign{ofForwardAuth},
}}

// Header is the name of the header that a field is read from, "" if the route reads none.
func (r *Route) Header(f Field) string {
	for _, read := range r.Reads {
		if read.Field == f {
			return read.Header
		}
	}
	return ""
}

// Cure is what to do about a foreign header.
func (r *Route) Cure(header string) string {
	for _, f := range r.Foreign {
		if f.Header == header {
			return f.Cure
		}
	}
	return ""
}

// IndexOf finds the place in routes of a raw request target: the path itself, or followed by "?" or "/".
// It is -1 for any other.
func IndexOf(target []byte) int {
	for i := range All {
		path := All[i].Path
		if len(target) >= len(path) && string(target[:len(path)]) == path {
			if rest := target[len(path):]; len(rest) == 0 || rest[0] == '?' || rest[0] == '/' {
				return i
			}
		}
	}
	return -1
}
