package main

import (
	"math/bits"

	"authz/limits"
	"authz/store"
)

// A verdict is the answer to a request.
type verdict uint8

const (
	admitted verdict = iota
	limited
	blocked
	unavailable // the store could not answer, and a limit says on_error = "deny"
	verdicts
)

func (v verdict) String() string {
	return [...]string{"admitted", "limited", "blocked", "unavailable"}[v]
}

// status is what the client should see.
func (v verdict) status() int { return [...]int{200, 429, 403, 503}[v] }

// degraded says who answered when the store could not; the stricter, the larger.
type degraded uint8

const (
	asUsual degraded = iota
	byAllow
	byLocal
	byDeny
)

func (d degraded) String() string { return [...]string{"", "allow", "local", "deny"}[d] }

// A decision is the answer to a request, and what there is to say about it.
type decision struct {
	verdict  verdict
	limit    *limits.Limit // the deciding limit, nil when none applies
	rate     *limits.Rate  // the numbers it was decided by, nil when there are none
	result   store.Result  // what came out; means nothing without rate
	degraded degraded
	holdUS   int64 // admitted: how long the answer has to wait
}

// refuseAtOnce answers with the first "0/s" that enforces. It takes every "0/s" out of checks: no store
// is asked about one, and one that is a shadow is only counted.
func refuseAtOnce(checks []limits.Check) (rest []limits.Check, d decision) {
	rest = checks[:0]
	for _, c := range checks {
		switch {
		case c.Rate.Count > 0:
			rest = append(rest, c)
		case !c.Limit.Shadow && d.limit == nil:
			d = decision{verdict: limited, limit: c.Limit, rate: c.Rate, result: store.Result{WaitUS: -1}}
		}
	}
	return rest, d
}

// decide is the answer of a store. Shadow limits have no part in it. The deciding limit of a refusal is
// the one with the longest wait, else the one with the least left of its capacity; checks come by name,
// so that the first of equals is the first by name.
func decide(checks []limits.Check, results []store.Result) decision {
	var d decision
	for i := range checks {
		c, r := &checks[i], results[i]
		switch {
		case c.Limit.Shadow:
			continue
		case !r.Allowed:
			if d.verdict == limited && !longer(r.WaitUS, d.result.WaitUS) {
				continue
			}
			d.verdict = limited
		case d.verdict == limited:
			continue
		default:
			d.holdUS = max(d.holdUS, r.WaitUS)
			if d.limit != nil && !less(r.Remaining, c.Rate.Size(c.Limit.Algorithm), d.result.Remaining, d.rate.Size(d.limit.Algorithm)) {
				continue
			}
		}
		d.limit, d.rate, d.result = c.Limit, c.Rate, r
	}
	if d.verdict == limited {
		d.holdUS = 0
	}
	return d
}

// degrade is the answer when the store could not give one: each limit's on_error says what counts for
// it. An enforcing "deny" answers at once. Otherwise the checks in local are left to the in-memory store,
// each with this instance's share; allow and local among them are in the order of strictness, and the
// limits that say "allow" have no numbers.
//
// Where a client could have caused the failure, "allow" counts as "local": nobody can buy themselves
// free of a limit by overloading Redis.
func degrade(checks, local []limits.Check, clientCaused bool) ([]limits.Check, decision) {
	var d decision
	for _, c := range checks {
		by := onError(c.Limit, clientCaused)
		if by == byLocal {
			c.Rate = c.Rate.Local()
			local = append(local, c)
		}
		if !c.Limit.Shadow && by > d.degraded {
			d.degraded, d.limit = by, c.Limit
		}
	}
	if d.degraded == byDeny {
		d.verdict = unavailable
	}
	return local, d
}

func onError(l *limits.Limit, clientCaused bool) degraded {
	switch {
	case l.OnError == limits.OnErrorDeny:
		return byDeny
	case l.OnError == limits.OnErrorAllow && !clientCaused:
		return byAllow
	}
	return byLocal
}

// tooManyHeld refuses because no more answers can be held: a second later there may be room again.
func tooManyHeld(c *limits.Check) decision {
	return decision{verdict: limited, limit: c.Limit, rate: c.Rate, result: store.Result{WaitUS: 1_000_000}}
}

// holding is the first check that may ask for its answer to be held.
func holding(checks []limits.Check) *limits.Check {
	for i := range checks {
		if holds(checks[i].Limit) {
			return &checks[i]
		}
	}
	return nil
}

// holds says whether the limit may ask for answers to be held.
func holds(l *limits.Limit) bool { return l.Algorithm == limits.LeakyBucket && !l.Shadow }

// longer compares waits; -1 is for ever.
func longer(a, b int64) bool { return b != -1 && (a == -1 || a > b) }

// less says exactly whether a/capA < b/capB.
func less(a, capA, b, capB int64) bool {
	highA, lowA := bits.Mul64(uint64(a), uint64(capB))
	highB, lowB := bits.Mul64(uint64(b), uint64(capA))
	return highA < highB || highA == highB && lowA < lowB
}
