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

// A reading is which of request.values each header goes to, by its name as net/textproto spells it: to
// the field that a route takes from it, to the place after the fields that limits have it at, or both.
type reading map[string][]int

// newReading is for a route's reads, and the headers that set reads.
func newReading(reads []read, set *limits.Set) reading {
	places := reading{}
	for _, r := range reads {
		places[r.header] = append(places[r.header], int(r.field))
	}
	for i, name := range set.HeaderNames() {
		name = canonical(name)
		places[name] = append(places[name], int(fields)+i)
	}
	return places
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
