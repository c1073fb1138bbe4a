package replay

import (
	"fmt"
	"slices"
)

// A Lack is a part of requests that a rule reads and the logs do not have, and what the matcher did.
type Lack struct {
	Rule  string `json:"rule"` // "limit.NAME", "deny.NAME", "allow.NAME"
	What  string `json:"lacks"`
	Means string `json:"means"`
}

// lacks is what the logs lack that this policy reads.
func (r *run) lacks(p *policyText) []Lack {
	all := []Lack{}
	for _, kind := range [...]struct {
		name  string
		rules []ruleText
	}{{"deny.", p.Deny}, {"allow.", p.Allow}, {"limit.", p.Limits}} {
		for i := range kind.rules {
			rule := &kind.rules[i]
			for _, read := range rule.reads() {
				if !r.logged(read) {
					all = append(all, Lack{kind.name + rule.Name, read.String(), rule.without(read)})
				}
			}
		}
	}
	return all
}

// logged says whether the logs have what is read.
func (r *run) logged(what read) bool {
	has := func(places ...place) bool {
		return slices.ContainsFunc(places, func(at place) bool { return at != nowhere && r.seen[at] })
	}
	switch what.kind {
	case readIP:
		return has(placeAddress)
	case readHost:
		return has(placeHost, placeHTTPHost, placeServerName)
	case readMethod:
		return has(placeMethod)
	case readZone:
		return has(placeZone)
	case readHeader:
		return has(r.names.header(what.name))
	case readCookie:
		return has(placeCookie, r.names.cookie(slices.Index(r.names.cookies, what.name)))
	case readQuery:
		return has(placeTarget, placeRequest, placeQuery)
	}
	return true // a path: else there would be no request
}

func (r read) String() string {
	switch r.kind {
	case readIP:
		return "client address"
	case readHeader:
		return "header " + r.name
	case readCookie:
		return "cookie " + r.name
	case readQuery:
		return "query"
	}
	return [...]string{readHost: "host", readMethod: "method", readPath: "path", readZone: "zone"}[r.kind]
}

// without is what it means for a rule that something it reads is never there.
func (r *ruleText) without(what read) string {
	switch what.role {
	case roleMatch:
		return "match asks for it: no request meets the rule"
	case roleUnless:
		return "unless asks for it: unless never holds"
	case roleCost:
		return fmt.Sprintf("each request costs the most, %d", r.CostMax)
	}
	if what.kind == readIP {
		return "a part of its key: every request counts as ip=unknown"
	}
	switch {
	case r.Missing == "skip", r.Missing == "deny" && r.Shadow:
		return fmt.Sprintf("a part of its key, missing = %q: no request is counted", r.Missing)
	case r.Missing == "deny":
		return `a part of its key, missing = "deny": every request that it meets is blocked`
	case r.Missing == "ip":
		return `a part of its key, missing = "ip": the client's address stands in its place`
	}
	return "a part of its key: it is the same in all keys"
}
