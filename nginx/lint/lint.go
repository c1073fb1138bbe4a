// Package lint finds what in an nginx configuration bypasses a check or spoils its answer.
package lint

import (
	"cmp"
	"fmt"
	"slices"

	"authz/nginx"
)

// A Finding is one thing that is wrong, and what would be right.
type Finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"`
}

// A linter collects what is found, each thing once.
type linter struct {
	conf    []*nginx.Directive
	levels  []*level
	headers []string // that limits read
	found   []Finding
	isFound map[Finding]bool
}

func (w *linter) add(at *nginx.Directive, format string, a ...any) {
	f := Finding{at.File, at.Line, fmt.Sprintf(format, a...)}
	if !w.isFound[f] {
		w.isFound[f] = true
		w.found = append(w.found, f)
	}
}

// Lint says what is wrong with a configuration. headers are those that limits read, nil if that is not known.
func Lint(conf []*nginx.Directive, headers []string) []Finding {
	w := &linter{conf: conf, levels: levelsOf(conf), headers: headers, isFound: map[Finding]bool{}}
	w.zoneKeys()
	for _, l := range w.levels {
		w.client(l)
		w.refusalHeaders(l)
		w.limitReq(l)
		w.zoneOfMethods(l)
		if l.Name() == "http" || l.isHidden() {
			continue
		}
		w.pack(l)
		check := l.check()
		if check == nil {
			continue
		}
		w.bypasses(l, check)
		switch {
		case check.isOurs():
			w.refusals(l, check)
			w.drops(l)
			w.twice(l, check)
			w.checkLocation(check)
			if check.sends()["x-real-ip"] == "$remote_addr" {
				w.unixClients(l)
			}
		case l.up.check().isOurs():
			w.add(l.own("auth_request")[0], "auth_request in %s is asked instead of that of %s, and authz is not; want it in an inner server{} to which this one passes the request", l, l.up)
		}
	}
	slices.SortStableFunc(w.found, func(a, b Finding) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return w.found
}
