package replay

import (
	"context"
	"math"
	"slices"

	"authz/internal/decision"
	"authz/internal/store"
	"authz/limits"
)

// A policy is a set of limits at work, and what it has said.
type policy struct {
	set    *limits.Set
	store  *store.Memory
	limits []*tally // by Limit.Index

	unmatched, admitted, limited, blocked int64
	deny, allow                           map[string]int64 // by rule

	last    fate
	asked   []limits.Check
	results []store.Result
}

// A fate is what became of one request.
type fate struct {
	refused bool
	table   string        // "deny." or "limit.", and
	name    string        // that of the rule: the limit with the longest wait of those that refused
	check   *limits.Check // of that limit; nil where a rule or a missing part blocked
}

func newPolicy(set *limits.Set, s *Suggest) *policy {
	p := &policy{set: set, store: store.NewReplayMemory(math.MaxInt32), deny: map[string]int64{}, allow: map[string]int64{}}
	for _, l := range set.Limits() {
		p.limits = append(p.limits, newTally(l, s))
	}
	return p
}

// decide is what the service would have answered.
func (p *policy) decide(nowUS int64, o *outcome) {
	p.last = fate{}
	for _, l := range o.missing {
		p.limits[l.Index].missing++
	}
	for _, l := range o.unlimited {
		p.limits[l.Index].unlimited++
	}
	switch o.verdict {
	case limits.None:
		p.unmatched++
	case limits.Allow:
		p.allow[o.rule]++
	case limits.Deny:
		p.blocked++
		if p.last = (fate{true, "deny.", o.rule, nil}); o.limit != nil {
			p.last.table = "limit."
			p.limits[o.limit.Index].blocked++
		} else {
			p.deny[o.rule]++
		}
		return
	case limits.Limits:
		p.ask(nowUS, o.checks)
	}
	if p.last.refused {
		p.limited++
	} else {
		p.admitted++
	}
}

// ask asks the store, unless a limit of "0/s" refuses at once: no store is asked about those.
func (p *policy) ask(nowUS int64, checks []limits.Check) {
	rest, d := decision.RefuseAtOnce(append(p.asked[:0], checks...))
	p.asked, p.results = rest, p.results[:0]
	if d.Verdict != decision.Limited && len(rest) > 0 {
		var err error
		if p.results, err = p.store.Take(context.Background(), nowUS, rest, false, p.results); err != nil {
			panic("BUG: the in-memory store failed: " + err.Error())
		}
		d = decision.Decide(rest, p.results)
	}
	if d.Verdict == decision.Limited {
		at := slices.IndexFunc(checks, func(c limits.Check) bool { return c.Limit == d.Limit })
		p.last = fate{true, "limit.", d.Limit.Name, &checks[at]}
	}
	answered := p.results
	for i := range checks {
		c := &checks[i]
		refused := c.Rate.Count == 0
		if !refused && len(answered) > 0 {
			refused = !answered[0].Allowed
			answered = answered[1:]
		}
		p.limits[c.Limit.Index].count(nowUS, c, refused)
	}
}

// setsOf are the limits of policies.
func setsOf(policies []*policy) (sets []*limits.Set) {
	for _, p := range policies {
		sets = append(sets, p.set)
	}
	return sets
}
