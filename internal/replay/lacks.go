package replay

import (
	"fmt"
	"slices"

	"authz/internal/replay/accesslog"
	"authz/limits"
)

// A Lack is a part of requests that a rule reads and the logs do not have, and what the matcher did.
type Lack struct {
	Rule  string `json:"rule"` // "limit.NAME", "deny.NAME", "allow.NAME"
	What  string `json:"lacks"`
	Means string `json:"means"`
}

// lacks is what the logs lack that these rules read.
func (r *run) lacks(rules []limits.Rule) []Lack {
	tables := map[limits.Verdict]string{limits.Deny: "deny.", limits.Allow: "allow.", limits.Limits: "limit."}
	all := []Lack{}
	for i := range rules {
		rule := &rules[i]
		for _, read := range rule.Reads {
			if !r.logged(read) {
				all = append(all, Lack{tables[rule.Verdict] + rule.Name, read.String(), without(rule, read)})
			}
		}
	}
	return all
}

// logged says whether the logs have what is read.
func (r *run) logged(what limits.Read) bool {
	has := func(places ...accesslog.Place) bool {
		return slices.ContainsFunc(places, func(at accesslog.Place) bool { return at != accesslog.Nowhere && r.seen[at] })
	}
	switch what.Kind {
	case limits.ReadIP:
		return has(accesslog.PlaceAddress)
	case limits.ReadHost:
		return has(accesslog.PlaceHost, accesslog.PlaceHTTPHost, accesslog.PlaceServerName)
	case limits.ReadMethod:
		return has(accesslog.PlaceMethod)
	case limits.ReadZone:
		return has(accesslog.PlaceZone)
	case limits.ReadHeader:
		return has(r.names.Header(what.Name))
	case limits.ReadCookie:
		return has(accesslog.PlaceCookie, r.names.Cookie(slices.Index(r.names.Cookies, what.Name)))
	case limits.ReadQuery:
		return has(accesslog.PlaceTarget, accesslog.PlaceRequest, accesslog.PlaceQuery)
	}
	return true // a path: else there would be no request
}

// without is what it means for a rule that something it reads is never there.
func without(r *limits.Rule, what limits.Read) string {
	switch what.Role {
	case limits.RoleMatch:
		return "match asks for it: no request meets the rule"
	case limits.RoleUnless:
		return "unless asks for it: unless never holds"
	case limits.RoleCost:
		return fmt.Sprintf("each request costs the most, %d", r.Limit.MostCost())
	}
	if what.Kind == limits.ReadIP {
		return "a part of its key: every request counts as ip=unknown"
	}
	switch {
	case r.Limit.Missing() == "skip", r.Limit.Missing() == "deny" && r.Limit.Shadow:
		return fmt.Sprintf("a part of its key, missing = %q: no request is counted", r.Limit.Missing())
	case r.Limit.Missing() == "deny":
		return `a part of its key, missing = "deny": every request that it meets is blocked`
	case r.Limit.Missing() == "ip":
		return `a part of its key, missing = "ip": the client's address stands in its place`
	}
	return "a part of its key: it is the same in all keys"
}
