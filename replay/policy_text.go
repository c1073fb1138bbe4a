package replay

import (
	"encoding/json"
	"maps"
	"slices"

	"authz/limits"
)

// A policyText is what Set.JSON says of a policy: which parts of a request each rule reads.
type policyText struct {
	Deny, Allow, Limits []ruleText
}

type ruleText struct {
	Name          string
	Match, Unless conditionText
	Key           []struct{ Kind, Name string }
	Missing       string
	Cost          int64
	CostHeader    string `json:"cost_header"`
	CostMax       int64  `json:"cost_max"`
	Shadow        bool
}

type conditionText struct {
	Path, Host, Method, Zone, IP []string
	Header, Query, Cookie        map[string][]string
}

// A read is a part of a request that a rule reads, and what for.
type read struct {
	kind readKind
	name string // of a header (in lower case), cookie or query argument
	role role
}

type readKind uint8

const (
	readIP readKind = iota
	readHost
	readMethod
	readPath
	readZone
	readHeader
	readCookie
	readQuery
)

type role uint8

const (
	roleMatch role = iota
	roleUnless
	roleKey
	roleCost
)

// kinds are what the limits file calls them in a key.
var kinds = map[string]readKind{"ip": readIP, "host": readHost, "method": readMethod, "path": readPath, "path:raw": readPath,
	"zone": readZone, "header": readHeader, "cookie": readCookie, "query": readQuery}

func newPolicyText(set *limits.Set) *policyText {
	p := new(policyText)
	if err := json.Unmarshal(set.JSON(), p); err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}

func (p *policyText) eachRead(f func(read)) {
	for _, rules := range [...][]ruleText{p.Deny, p.Allow, p.Limits} {
		for i := range rules {
			for _, r := range rules[i].reads() {
				f(r)
			}
		}
	}
}

// reads is what a rule reads: match, unless, the key, the cost.
func (r *ruleText) reads() []read {
	all := append(r.Match.reads(roleMatch), r.Unless.reads(roleUnless)...)
	for _, part := range r.Key {
		all = append(all, read{kinds[part.Kind], part.Name, roleKey})
	}
	if r.CostHeader != "" {
		all = append(all, read{readHeader, r.CostHeader, roleCost})
	}
	return all
}

func (c *conditionText) reads(as role) (all []read) {
	for _, list := range [...]struct {
		patterns []string
		kind     readKind
	}{{c.Path, readPath}, {c.Host, readHost}, {c.Method, readMethod}, {c.Zone, readZone}, {c.IP, readIP}} {
		if list.patterns != nil {
			all = append(all, read{list.kind, "", as})
		}
	}
	for _, list := range [...]struct {
		patterns map[string][]string
		kind     readKind
	}{{c.Header, readHeader}, {c.Query, readQuery}, {c.Cookie, readCookie}} {
		for _, name := range slices.Sorted(maps.Keys(list.patterns)) {
			all = append(all, read{list.kind, name, as})
		}
	}
	return all
}
