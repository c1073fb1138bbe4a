package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"authz/internal/decision"
	"authz/limits"
	"authz/redisscripts"
)

// limits tries the numbers of each limit, and of all in one request, and charges nothing. Whether their
// scripts can charge has been tried.
func (d *Doctor) limits(set *limits.Set) {
	var said findings
	checks, identities := d.checksOf(set)
	for i := range checks {
		said.add(checks[i].Limit.Name, d.tryLimit(checks[i:i+1]))
	}
	if len(said.names[""]) == len(checks) {
		said.add("all in one request", d.peek(checks))
	}
	fine := true
	for _, text := range said.texts {
		if text != "" {
			fine = false
			d.wrong("limits", "%s: %s", strings.Join(said.names[text], ", "), text)
		}
	}
	switch {
	case !fine:
	case d.At.Timeout >= decision.LongestAnswer && slices.ContainsFunc(set.Limits(), decision.Holds):
		d.wrong("limits", "leaky buckets hold answers, which nginx awaits for 1s: want a --redis-timeout of less than %v", decision.LongestAnswer)
	case d.Redis.IsCluster() && identities > 1:
		d.well("limits", "%d, on %d identities: a request that meets several of these may need a call in each of their slots, "+
			"to peek and then to charge", len(set.Limits()), identities)
	default:
		d.well("limits", "%d, which one call can decide", len(set.Limits()))
	}
}

// checksOf is a check of each limit that Redis is asked about, in slots as a client's would be: those with
// the same key are together. It says how many such keys there are.
func (d *Doctor) checksOf(set *limits.Set) (checks []limits.Check, identities int) {
	tags := map[string]int{}
	for _, l := range set.Limits() {
		if l.Rate.Unlimited || l.Rate.Count == 0 {
			continue
		}
		parts := set.KeyParts(l)
		if parts == "" {
			parts = "limit " + l.Name // its bucket is named after it
		}
		if _, ok := tags[parts]; !ok {
			tags[parts] = len(tags)
		}
		key := fmt.Sprintf("%s:%s:{%s-%d}:%s:%s", d.Prefix, redisscripts.Version, d.name, tags[parts], l.Name, l.Algorithm.Code())
		checks = append(checks, limits.Check{Limit: l, Rate: &l.Rate, Key: []byte(key), Cost: 1})
	}
	return checks, len(tags)
}

// tryLimit says what is wrong with one, "" for nothing.
func (d *Doctor) tryLimit(check []limits.Check) string {
	if text := d.broken[check[0].Limit.Algorithm.String()]; text != "" {
		return text
	}
	return d.peek(check)
}

func (d *Doctor) peek(checks []limits.Check) string {
	if len(checks) == 0 {
		return ""
	}
	if _, err := d.Redis.Take(context.Background(), 0, checks, true, nil); err != nil {
		return Advice(err)
	}
	return ""
}
