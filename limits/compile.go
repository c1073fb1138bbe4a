package limits

import (
	"crypto/sha256"
	"fmt"
)

// compile makes the set that answers requests. The spec is checked already: nothing can be wrong.
func compile(sp *spec) *Set {
	s := &Set{spec: sp, slots: newSlots(sp)}
	var matches []*condSpec
	add := func(r *ruleSpec, verdict Verdict, limit *Limit) {
		s.rules = append(s.rules, rule{r.name, s.slots.condition(&r.match), s.slots.condition(&r.unless), verdict, limit})
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
		limit := &Limit{Name: l.name, Index: i, Algorithm: l.algorithm, Rate: *l.rate, Shadow: l.shadow, OnError: l.onError,
			schedules: l.schedules}
		limit.keying = s.newKeying(l, known)
		s.schedules += len(l.schedules)
		s.limits = append(s.limits, limit)
		add(&l.ruleSpec, Deny, limit)
	}
	s.index = newIndex(&s.slots, matches)
	s.version = fmt.Sprintf("%x", sha256.Sum256(s.jsonRest()))
	return s
}

// condition compiles a match or unless table.
func (s *slots) condition(sp *condSpec) condition {
	var c condition
	add := func(slot int, patterns []string, compile func(string) pattern) {
		if patterns != nil {
			c.slots = append(c.slots, slotCondition{slot, newPatternList(patterns, compile)})
		}
	}
	add(slotPath, sp.path, pathPattern)
	add(slotHost, sp.host, hostPattern)
	add(slotMethod, sp.method, textPattern)
	add(slotZone, sp.zone, textPattern)
	for _, n := range sp.header {
		add(s.header(n.name), n.patterns, textPattern)
	}
	for _, n := range sp.cookie {
		add(s.cookies[n.name], n.patterns, textPattern)
	}
	for _, n := range sp.query {
		add(s.queries[n.name], n.patterns, textPattern)
	}
	if sp.ip != nil {
		c.ip = newPrefixes(sp.ip)
	}
	return c
}

// newKeying compiles how a limit is keyed. known is the parts that earlier limits have.
func (s *Set) newKeying(l *limitSpec, known map[partSpec]int) keying {
	k := keying{missing: l.missing, cost: l.cost, costMax: l.costMax, ipPart: -1}
	if l.costHeader != "" {
		k.costSlot = s.slots.header(l.costHeader)
	}
	place := func(p partSpec) int {
		at, ok := known[p]
		if !ok || p.kind == partPath { // whose texts are this limit's own
			at = len(s.parts)
			known[p] = at
			s.parts = append(s.parts, s.slots.keyPart(p, l.match.path))
		}
		return at
	}
	for _, p := range l.key {
		at := place(p)
		k.parts = append(k.parts, at)
		if p.kind == partPath {
			k.paths = newPatternList(l.match.path, pathPattern)
		}
	}
	if l.missing == missingIP {
		k.ipPart = place(partSpec{kind: partIP})
	}
	k.head = s.spec.keyPrefix + ":v1:{"
	k.tail = "}:" + l.name + ":" + l.algorithm.Code()
	if len(l.key) == 0 {
		k.tail = l.name + k.tail
	}
	k.overrides = s.newOverrides(l.overrides, k.parts)
	return k
}

// keyPart compiles a part of a key; paths is its limit's match.path.
func (s *slots) keyPart(sp partSpec, paths []string) keyPart {
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
		p.slot, p.secret = s.header(sp.name), sp.secret()
	case partCookie:
		p.slot, p.secret = s.cookies[sp.name], sp.secret()
	case partQuery:
		p.slot, p.secret = s.queries[sp.name], sp.secret()
	default:
		panic(fmt.Sprintf("BUG: key part of kind %d, want 1 to %d", sp.kind, len(partNames)-1))
	}
	return p
}
