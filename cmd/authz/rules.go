package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"authz/internal/decision"
	"authz/internal/route"
	"authz/limits"
)

// rules is the limits in force, with what each request would otherwise have to look up.
type rules struct {
	set      *limits.Set
	readings [len(route.All)]reading
	counters []limitCounters // by Limit.Index

	deny, allow map[string]prometheus.Counter // by the name of the rule
}

func newRules(set *limits.Set, m *metrics) *rules {
	r := &rules{set: set, deny: m.ofRules(set.Rules(limits.Deny), decision.Blocked), allow: m.ofRules(set.Rules(limits.Allow), decision.Admitted)}
	for i := range route.All {
		r.readings[i] = readingOf(&route.All[i], set)
	}
	for _, l := range set.Limits() {
		r.counters = append(r.counters, m.forLimit(l))
	}
	return r
}

func (r *rules) of(l *limits.Limit) *limitCounters { return &r.counters[l.Index] }
