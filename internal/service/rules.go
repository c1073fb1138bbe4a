package service

import (
	"github.com/prometheus/client_golang/prometheus"

	"authz/internal/decision"
	"authz/internal/route"
	"authz/limits"
)

// Rules is the limits in force, with what each request would otherwise have to look up.
type Rules struct {
	Set      *limits.Set
	readings [len(route.All)]reading
	counters []limitCounters // by Limit.Index

	deny, allow map[string]prometheus.Counter // by the name of the rule
}

func newRules(set *limits.Set, m *metrics) *Rules {
	r := &Rules{Set: set, deny: m.ofRules(set.Rules(limits.Deny), decision.Blocked), allow: m.ofRules(set.Rules(limits.Allow), decision.Admitted)}
	for i := range route.All {
		r.readings[i] = readingOf(&route.All[i], set)
	}
	for _, l := range set.Limits() {
		r.counters = append(r.counters, m.forLimit(l))
	}
	return r
}

func (r *Rules) Of(l *limits.Limit) *limitCounters { return &r.counters[l.Index] }
