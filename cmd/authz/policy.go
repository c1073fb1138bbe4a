package main

import (
	"encoding/json"
	"slices"

	"authz/limits"
)

// A policy is what rules read of a request, as the canonical JSON has it.
type policy struct{ Deny, Allow, Limits []policyRule }

type policyRule struct {
	Name          string
	Match, Unless policyCondition
	Key           []struct{ Kind, Name string }
	CostHeader    string `json:"cost_header"`
}

type policyCondition struct {
	IP, Zone, Host []string
	Header, Cookie map[string][]string
}

func policyOf(set *limits.Set) *policy {
	p := new(policy)
	if err := json.Unmarshal(set.JSON(), p); err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}

func (p *policy) rules() []policyRule { return slices.Concat(p.Deny, p.Allow, p.Limits) }

// readsClient says whether the rule asks for the client's address or the zone.
func (r *policyRule) readsClient() bool {
	return len(r.Match.IP)+len(r.Match.Zone)+len(r.Unless.IP)+len(r.Unless.Zone) > 0
}

// reads says whether any rule asks for the zone or the host, in a condition or a key.
func (p *policy) reads(kind string) bool {
	for _, r := range p.rules() {
		conditions := map[string]int{"zone": len(r.Match.Zone) + len(r.Unless.Zone), "host": len(r.Match.Host) + len(r.Unless.Host)}
		if conditions[kind] > 0 {
			return true
		}
		for _, part := range r.Key {
			if part.Kind == kind {
				return true
			}
		}
	}
	return false
}

// headers are those that a rule reads, in lower case, Cookie for cookies; each once, in order.
func (p *policy) headers() []string {
	var names []string
	for _, r := range p.rules() {
		for _, c := range []*policyCondition{&r.Match, &r.Unless} {
			for name := range c.Header {
				names = append(names, name)
			}
			if len(c.Cookie) > 0 {
				names = append(names, "cookie")
			}
		}
		for _, part := range r.Key {
			switch part.Kind {
			case "header":
				names = append(names, part.Name)
			case "cookie":
				names = append(names, "cookie")
			}
		}
		if r.CostHeader != "" {
			names = append(names, r.CostHeader)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// zones are those that rules ask for by name, in order.
func (p *policy) zones() []string {
	var names []string
	for _, r := range p.rules() {
		names = append(append(names, r.Match.Zone...), r.Unless.Zone...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
