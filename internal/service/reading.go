package service

import (
	"slices"
	"strings"

	"authz/internal/header"
	"authz/internal/route"
	"authz/limits"
)

// readingOf is what a route takes from headers, and what the limits of set take. A limit reads the own header of
// another route as absent: on this route it is the client's.
func readingOf(r *route.Route, set *limits.Set) reading {
	var hidden []string
	for i := range route.All {
		for _, other := range route.All[i].Reads {
			if onlyFromProxies([]byte(other.Header)) && r.Header(other.Field) != other.Header {
				hidden = append(hidden, strings.ToLower(other.Header))
			}
		}
	}
	reads := slices.Clone(r.Reads)
	for _, f := range r.Foreign {
		reads = append(reads, route.Read{Header: f.Header, Field: route.ForeignHeader})
	}
	return newReading(reads, set, hidden...)
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
func newReading(reads []route.Read, set *limits.Set, hidden ...string) (r reading) {
	for _, read := range reads {
		r.add(read.Header, int(read.Field))
	}
	for i, name := range set.HeaderNames() {
		if !slices.Contains(hidden, name) {
			r.add(header.Canonical(name), int(route.Fields)+i)
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
