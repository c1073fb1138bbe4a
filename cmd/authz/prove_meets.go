package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/valyala/fasthttp"

	"authz/internal/explain"
	"authz/internal/route"
	"authz/limits"
)

// meets is an error if the limit does not count what the run would send, or not by its own numbers, as far as the
// limits file tells: through a site nobody here knows the client's address and the zone.
func (f *proveCmd) meets(set *limits.Set, l *limits.Limit, nowUS int64) error {
	var q request
	if f := f.asked(set, nowUS, &q); f != flawless {
		return fmt.Errorf("no limit meets %s %s: nginx answers 400 to it", q.attrs.Method, q.values[route.Target])
	}
	set.Match(&q.attrs, &q.match)
	what := fmt.Sprintf("%s %s of host %s", q.attrs.Method, q.attrs.Path, q.attrs.Host)
	i := slices.IndexFunc(q.match.Checks, func(c limits.Check) bool { return c.Limit == l })
	switch m := &q.match; {
	case i < 0 && !f.Direct && dependsOnClient(set, l.Name, m.Rule):
		return nil
	case i < 0 && m.Limit != nil:
		return fmt.Errorf("limit.%s blocks %s: %s; see --header and --vary", m.Rule, what, explain.Absent(m.Limit, m))
	case i < 0 && m.Rule != "":
		return fmt.Errorf("%s.%s decides %s, and no limit counts it; see authz explain", m.Verdict, m.Rule, what)
	case i < 0 && slices.Contains(m.Missing, l):
		return fmt.Errorf("limit.%s does not count %s: %s; see --header and --vary", l.Name, what, explain.Absent(l, m))
	case i < 0:
		return fmt.Errorf("limit.%s does not meet %s: want another --url, --method or --header; see authz explain", l.Name, what)
	}
	c := &q.match.Checks[i]
	if rate, _ := l.InForce(nowUS); c.Rate != rate {
		return fmt.Errorf("an override gives %s %s: want another key, or the override's numbers as --rate and --burst", c.Identity(), c.Rate)
	}
	if c.Cost != 1 {
		return fmt.Errorf("%s costs %d: want one that costs 1; a run counts requests", what, c.Cost)
	}
	return nil
}

// asked is what authz reads of a request of the run.
func (f *proveCmd) asked(set *limits.Set, nowUS int64, q *request) flaw {
	b := newProber(f)
	b.direct = true // as nginx would ask
	var h fasthttp.RequestHeader
	if err := h.Read(bufio.NewReader(bytes.NewReader(b.request(1).Header.Header()))); err != nil {
		return badTarget
	}
	q.rules = &rules{set: set}
	q.rules.readings[0] = readingOf(&route.All[0], set)
	q.read(&h, 0, true)
	why, _ := q.resolve(new(limits.Prefixes))
	q.attrs.NowUS = nowUS
	if !f.Direct {
		q.attrs.IP, q.attrs.Zone = netip.Addr{}, nil
	}
	return why
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
