package limits

import (
	"encoding/json"
	"maps"
	"slices"
)

// Texts are the rules as Set.JSON has them, for those who want to know which parts of a request they read.
type Texts struct {
	Deny, Allow, Limits []RuleText
}

// A RuleText is a rule; what follows Unless is a limit's alone.
type RuleText struct {
	Name          string
	Match, Unless ConditionText
	Key           []struct{ Kind, Name string }
	Missing       string
	Cost          int64
	CostHeader    string `json:"cost_header"`
	CostMax       int64  `json:"cost_max"`
	Shadow        bool
}

// A ConditionText is the patterns of match or unless.
type ConditionText struct {
	Path, Host, Method, Zone, IP []string
	Header, Query, Cookie        map[string][]string
}

// A Read is a part of a request that a rule reads, and what for.
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

// A Role is what a part of a request is read for.
type Role uint8

const (
	RoleMatch Role = iota
	RoleUnless
	RoleKey
	RoleCost
)

// readKinds are what the limits file calls them in a key.
var readKinds = map[string]ReadKind{"ip": ReadIP, "host": ReadHost, "method": ReadMethod, "path": ReadPath, "path:raw": ReadPath,
	"zone": ReadZone, "header": ReadHeader, "cookie": ReadCookie, "query": ReadQuery}

// Texts are the rules of the set.
func (s *Set) Texts() *Texts {
	t := new(Texts)
	if err := json.Unmarshal(s.JSON(), t); err != nil {
		panic("BUG: " + err.Error())
	}
	return t
}

// Reads are what all rules read, a part as often as it is read.
func (t *Texts) Reads() (all []Read) {
	for _, rules := range [...][]RuleText{t.Deny, t.Allow, t.Limits} {
		for i := range rules {
			all = append(all, rules[i].Reads()...)
		}
	}
	return all
}

// Reads are what a rule reads: match, unless, the key, the cost.
func (r *RuleText) Reads() []Read {
	all := append(r.Match.reads(RoleMatch), r.Unless.reads(RoleUnless)...)
	for _, part := range r.Key {
		all = append(all, Read{readKinds[part.Kind], part.Name, RoleKey})
	}
	if r.CostHeader != "" {
		all = append(all, Read{ReadHeader, r.CostHeader, RoleCost})
	}
	return all
}

func (c *ConditionText) reads(as Role) (all []Read) {
	for _, list := range [...]struct {
		patterns []string
		kind     ReadKind
	}{{c.Path, ReadPath}, {c.Host, ReadHost}, {c.Method, ReadMethod}, {c.Zone, ReadZone}, {c.IP, ReadIP}} {
		if list.patterns != nil {
			all = append(all, Read{list.kind, "", as})
		}
	}
	for _, list := range [...]struct {
		patterns map[string][]string
		kind     ReadKind
	}{{c.Header, ReadHeader}, {c.Query, ReadQuery}, {c.Cookie, ReadCookie}} {
		for _, name := range slices.Sorted(maps.Keys(list.patterns)) {
			all = append(all, Read{list.kind, name, as})
		}
	}
	return all
}

// String is what people call it.
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
