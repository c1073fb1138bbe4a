package limits

import "slices"

// A Rule is a deny rule, an allow rule or a limit, and the parts of a request that it reads.
type Rule struct {
	Verdict Verdict // Deny, Allow; Limits for a limit
	Name    string
	Reads   []Read
	Zones   []string // the zone patterns of match and unless
	Limit   *Limit   // nil for a deny or allow rule
}

// A Read is a part of a request that a rule reads, and its role there.
type Read struct {
	Kind ReadKind
	Name string // of a header (in lower case), cookie or query argument
	Role Role
}

// A ReadKind is a kind of part of a request.
type ReadKind uint8

const (
	ReadIP ReadKind = iota
	ReadHost
	ReadMethod
	ReadPath
	ReadZone
	ReadHeader
	ReadCookie
	ReadQuery
)

// A Role is the purpose that a part of a request is read for.
type Role uint8

const (
	RoleMatch Role = iota
	RoleUnless
	RoleKey
	RoleCost
)

var readKinds = [...]ReadKind{partIP: ReadIP, partHost: ReadHost, partMethod: ReadMethod, partPath: ReadPath,
	partPathRaw: ReadPath, partZone: ReadZone, partHeader: ReadHeader, partCookie: ReadCookie, partQuery: ReadQuery}

// Reads are all rules: deny rules, allow rules and limits, each by name.
func (s *Set) Reads() (all []Rule) {
	for i := range s.spec.deny {
		all = append(all, s.spec.deny[i].reads(Deny))
	}
	for i := range s.spec.allow {
		all = append(all, s.spec.allow[i].reads(Allow))
	}
	for i := range s.spec.limits {
		l := &s.spec.limits[i]
		r := l.ruleSpec.reads(Limits)
		for _, part := range l.key {
			r.Reads = append(r.Reads, Read{readKinds[part.kind], part.name, RoleKey})
		}
		if l.costHeader != "" {
			r.Reads = append(r.Reads, Read{ReadHeader, l.costHeader, RoleCost})
		}
		r.Limit = s.limits[i]
		all = append(all, r)
	}
	return all
}

func (r *ruleSpec) reads(v Verdict) Rule {
	return Rule{Verdict: v, Name: r.name, Reads: append(r.match.reads(RoleMatch), r.unless.reads(RoleUnless)...),
		Zones: slices.Concat(r.match.zone, r.unless.zone)}
}

func (c *condSpec) reads(as Role) (all []Read) {
	for _, one := range [...]struct {
		written bool
		kind    ReadKind
	}{{c.path != nil, ReadPath}, {c.host != nil, ReadHost}, {c.method != nil, ReadMethod}, {c.zone != nil, ReadZone}, {c.ip != nil, ReadIP}} {
		if one.written {
			all = append(all, Read{one.kind, "", as})
		}
	}
	for _, list := range [...]struct {
		names []nameSpec
		kind  ReadKind
	}{{c.header, ReadHeader}, {c.query, ReadQuery}, {c.cookie, ReadCookie}} {
		for _, n := range list.names {
			all = append(all, Read{list.kind, n.name, as})
		}
	}
	return all
}

// ReadsKind reports whether any rule reads a part of this kind.
func (s *Set) ReadsKind(kind ReadKind) bool {
	return slices.ContainsFunc(s.Reads(), func(r Rule) bool {
		return slices.ContainsFunc(r.Reads, func(read Read) bool { return read.Kind == kind })
	})
}

// ReadHeaders are the headers that rules read, in lower case, "cookie" for cookies; each once, in order.
func (s *Set) ReadHeaders() (names []string) {
	for _, rule := range s.Reads() {
		for _, read := range rule.Reads {
			switch read.Kind {
			case ReadHeader:
				names = append(names, read.Name)
			case ReadCookie:
				names = append(names, "cookie")
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Zones are the zone patterns of all rules, each once, in order.
func (s *Set) Zones() (patterns []string) {
	for _, rule := range s.Reads() {
		patterns = append(patterns, rule.Zones...)
	}
	slices.Sort(patterns)
	return slices.Compact(patterns)
}

// String is the name that people use.
func (r Read) String() string {
	switch r.Kind {
	case ReadIP:
		return "client address"
	case ReadHeader:
		return "header " + r.Name
	case ReadCookie:
		return "cookie " + r.Name
	}
	return [...]string{ReadHost: "host", ReadMethod: "method", ReadPath: "path", ReadZone: "zone", ReadQuery: "query"}[r.Kind]
}
