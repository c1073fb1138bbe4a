package main

import (
	"slices"

	"authz/limits"
)

// headersOf are the headers that rules read, in lower case, "cookie" for cookies; each once, in order.
func headersOf(t *limits.Texts) (names []string) {
	for _, r := range t.Reads() {
		switch r.Kind {
		case limits.ReadHeader:
			names = append(names, r.Name)
		case limits.ReadCookie:
			names = append(names, "cookie")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// zonesOf are the patterns of zones that rules ask for, in order.
func zonesOf(t *limits.Texts) (names []string) {
	for _, r := range slices.Concat(t.Deny, t.Allow, t.Limits) {
		names = append(append(names, r.Match.Zone...), r.Unless.Zone...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
