package prove

import (
	"fmt"
	"slices"

	"authz/internal/explain"
	"authz/limits"
)

// Meets is an error if the limit does not count what the run would send, or not by its own numbers, as far as the
// limits file tells: through a site nobody here knows the client's address and the zone.
func (f *Options) Meets(set *limits.Set, l *limits.Limit, nowUS int64) error {
	var m limits.Match
	q := f.asked()
	readable, err := q.Match(set, nowUS, &m)
	switch {
	case err != nil:
		return err
	case !readable:
		return fmt.Errorf("no limit meets %s %s: nginx answers 400 to it", q.Method, q.URI)
	}
	path, _, _ := limits.Target(nil, []byte(q.URI))
	what := fmt.Sprintf("%s %s of host %s", q.Method, path, q.Host)
	i := slices.IndexFunc(m.Checks, func(c limits.Check) bool { return c.Limit == l })
	switch {
	case i < 0 && !f.Direct && dependsOnClient(set, l.Name, m.Rule):
		return nil
	case i < 0 && m.Limit != nil:
		return fmt.Errorf("limit.%s blocks %s: %s; see --header and --vary", m.Rule, what, explain.Absent(m.Limit, &m))
	case i < 0 && m.Rule != "":
		return fmt.Errorf("%s.%s decides %s, and no limit counts it; see authz explain", m.Verdict, m.Rule, what)
	case i < 0 && slices.Contains(m.Missing, l):
		return fmt.Errorf("limit.%s does not count %s: %s; see --header and --vary", l.Name, what, explain.Absent(l, &m))
	case i < 0:
		return fmt.Errorf("limit.%s does not meet %s: want another --url, --method or --header; see authz explain", l.Name, what)
	}
	c := &m.Checks[i]
	if rate, _ := l.InForce(nowUS); c.Rate != rate {
		return fmt.Errorf("an override gives %s %s: want another key, or the override's numbers as --rate and --burst", c.Identity(), c.Rate)
	}
	if c.Cost != 1 {
		return fmt.Errorf("%s costs %d: want one that costs 1; a run counts requests", what, c.Cost)
	}
	return nil
}

// asked is what authz is told of a request of the run.
func (f *Options) asked() *explain.Question {
	b := newProber(f)
	b.direct = true // as nginx would ask
	q := &explain.Question{Headers: map[string][]string{}}
	for name, value := range b.request(1).Header.All() {
		switch said := string(value); string(name) {
		case "X-Original-Method":
			q.Method = said
		case "X-Original-Uri":
			q.URI = said
		case "X-Original-Host":
			q.Host = said
		case "X-Real-Ip":
			q.IP = said
		case "X-Authz-Zone":
			q.Zone = said
		default:
			q.Headers[string(name)] = append(q.Headers[string(name)], said)
		}
	}
	if !f.Direct {
		q.IP, q.Zone = "", ""
	}
	return q
}

// dependsOnClient says whether the limit, or the allow or deny rule, asks for the client's address or the zone.
func dependsOnClient(set *limits.Set, limit, rule string) bool {
	client := func(r limits.Read) bool {
		return (r.Kind == limits.ReadIP || r.Kind == limits.ReadZone) && (r.Role == limits.RoleMatch || r.Role == limits.RoleUnless)
	}
	return slices.ContainsFunc(set.Reads(), func(r limits.Rule) bool {
		named := rule
		if r.Verdict == limits.Limits {
			named = limit
		}
		return r.Name == named && slices.ContainsFunc(r.Reads, client)
	})
}
