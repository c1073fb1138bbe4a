package limits

import (
	"fmt"
	"maps"
	"slices"
)

// compile makes the set that answers requests. The spec is checked already: nothing can be wrong.
func compile(sp *spec) *Set {
	s := &Set{spec: sp, fields: newFields(sp)}
	var matches []*condSpec
	add := func(r *ruleSpec, verdict Verdict, limit *Limit) {
		unless, written := s.fields.condition(&r.unless)
		match, _ := s.fields.condition(&r.match)
		s.rules = append(s.rules, rule{
			name: r.name, match: match, unless: unless, hasUnless: written, verdict: verdict, limit: limit,
		})
		matches = append(matches, &r.match)
	}
	for i := range sp.deny {
		add(&sp.deny[i], Deny, nil)
	}
	for i := range sp.allow {
		add(&sp.allow[i], Allow, nil)
	}
	known := map[partSpec]int{}
	for i := range sp.limits {
		l := &sp.limits[i]
		l.limit.Name, l.limit.Index = l.name, i
		l.limit.rule = s.limitRule(l, known)
		s.limits = append(s.limits, &l.limit)
		add(&l.ruleSpec, Deny, &l.limit)
	}
	s.index = newIndex(&s.fields, matches)
	return s
}

// condition compiles a match or unless table, and says whether anything was written in it.
func (f *fields) condition(sp *condSpec) (condition, bool) {
	var c condition
	add := func(slot int, patterns []string, compile func(string) pattern) {
		if patterns != nil {
			c.fields = append(c.fields, fieldCondition{slot, newPatternList(patterns, compile)})
		}
	}
	add(slotPath, sp.path, pathPattern)
	add(slotHost, sp.host, hostPattern)
	add(slotMethod, sp.method, textPattern)
	add(slotZone, sp.zone, textPattern)
	for _, n := range sp.header {
		add(f.header(n.name), n.patterns, textPattern)
	}
	for _, n := range sp.cookie {
		add(f.cookies[n.name], n.patterns, textPattern)
	}
	for _, n := range sp.query {
		add(f.queries[n.name], n.patterns, textPattern)
	}
	if sp.ip != nil {
		c.ip = newPrefixSet(sp.ip)
	}
	return c, len(c.fields) > 0 || c.ip != nil
}

// limitRule compiles how a limit is keyed. known is the parts that earlier limits have.
func (s *Set) limitRule(l *limitSpec, known map[partSpec]int) limitRule {
	r := limitRule{missing: l.missing, cost: l.cost, costMax: l.costMax, ipPart: -1}
	if l.costHeader != "" {
		r.costSlot = s.fields.header(l.costHeader)
	}
	place := func(p partSpec) int {
		at, ok := known[p]
		if !ok || p.kind == partPath { // whose texts are this limit's own
			at = len(s.parts)
			known[p] = at
			s.parts = append(s.parts, s.fields.keyPart(p, l.match.path))
		}
		return at
	}
	var parts []keyPart
	for _, p := range l.key {
		at := place(p)
		r.parts = append(r.parts, at)
		parts = append(parts, s.parts[at])
		if p.kind == partPath {
			r.paths = newPatternList(l.match.path, pathPattern)
		}
	}
	if l.missing == missingIP {
		r.ipPart = place(partSpec{kind: partIP})
	}
	r.head = s.spec.keyPrefix + ":v1:{"
	r.tail = "}:" + l.name + ":" + l.limit.Algorithm.Code()
	if len(l.key) == 0 {
		r.tail = l.name + r.tail
	}
	r.overrides = newOverrides(l.overrides, parts)
	return r
}

// partNames is what the kinds of key part are called.
var partNames = map[partKind]string{
	partIP: "ip", partHost: "host", partMethod: "method", partPath: "path", partPathRaw: "path:raw",
	partZone: "zone", partHeader: "header:", partCookie: "cookie:", partQuery: "query:",
}

// keyPart compiles a part of a key; paths is its limit's match.path.
func (f *fields) keyPart(sp partSpec, paths []string) keyPart {
	p := keyPart{kind: sp.kind, head: partNames[sp.kind] + string(appendEscaped(nil, []byte(sp.name))) + "="}
	switch sp.kind {
	case partIP:
	case partPath:
		for _, path := range paths {
			p.texts = append(p.texts, string(appendValue(nil, []byte(path), false)))
		}
	case partHost:
		p.slot = slotHost
	case partMethod:
		p.slot = slotMethod
	case partPathRaw:
		p.slot = slotPath
	case partZone:
		p.slot = slotZone
	case partHeader:
		p.slot, p.secret = f.header(sp.name), sp.secret()
	case partCookie:
		p.slot, p.secret = f.cookies[sp.name], sp.secret()
	case partQuery:
		p.slot, p.secret = f.queries[sp.name], sp.secret()
	default:
		panic(fmt.Sprintf("BUG: key part of kind %d, want one of %v", sp.kind, slices.Sorted(maps.Keys(partNames))))
	}
	return p
}
