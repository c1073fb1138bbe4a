// Package decision makes one answer of what each limit says of a request. It is pure: the service and replay decide alike.
package decision

import (
	"math/bits"

	"authz/internal/store"
	"authz/limits"
)

// A Verdict is the answer to a request.
type Verdict uint8

const (
	Admitted Verdict = iota
	Limited
	Blocked
	Unavailable // the store could not answer, and a limit says on_error = "deny"
	Verdicts
)

func (v Verdict) String() string {
	return [...]string{"admitted", "limited", "blocked", "unavailable"}[v]
}

// Status is what the client should see.
func (v Verdict) Status() int { return [...]int{200, 429, 403, 503}[v] }

// Degraded says who answered when the store could not; the stricter, the larger.
type Degraded uint8

const (
	AsUsual Degraded = iota
	ByAllow
	ByLocal
	ByDeny
)

func (d Degraded) String() string { return [...]string{"", "allow", "local", "deny"}[d] }

// A Decision is the answer to a request, and what there is to say about it.
type Decision struct {
	Verdict  Verdict
	Limit    *limits.Limit // the deciding limit, nil when none applies
	Rate     *limits.Rate  // the numbers it was decided by, nil when there are none
	Result   store.Result  // what came out; means nothing without rate
	Degraded Degraded
	HoldUS   int64 // admitted: how long the answer has to wait
}

// RefuseAtOnce answers with the first "0/s" that enforces. It takes every "0/s" out of checks: no store
// is asked about one, and one that is a shadow is only counted.
func RefuseAtOnce(checks []limits.Check) (rest []limits.Check, d Decision) {
	rest = checks[:0]
	for _, c := range checks {
		switch {
		case c.Rate.Count > 0:
			rest = append(rest, c)
		case !c.Limit.Shadow && d.Limit == nil:
			d = Decision{Verdict: Limited, Limit: c.Limit, Rate: c.Rate, Result: store.Result{WaitUS: -1}}
		}
	}
	return rest, d
}

// Decide is the answer of a store. Shadow limits have no part in it. The deciding limit of a refusal is
// the one with the longest wait, else the one with the least left of its capacity; checks come by name,
// so that the first of equals is the first by name.
func Decide(checks []limits.Check, results []store.Result) Decision {
	var d Decision
	for i := range checks {
		c, r := &checks[i], results[i]
		switch {
		case c.Limit.Shadow:
			continue
		case !r.Allowed:
			if d.Verdict == Limited && !longer(r.WaitUS, d.Result.WaitUS) {
				continue
			}
			d.Verdict = Limited
		case d.Verdict == Limited:
			continue
		default:
			d.HoldUS = max(d.HoldUS, r.WaitUS)
			if d.Limit != nil && !less(r.Remaining, c.Rate.Size(c.Limit.Algorithm), d.Result.Remaining, d.Rate.Size(d.Limit.Algorithm)) {
				continue
			}
		}
		d.Limit, d.Rate, d.Result = c.Limit, c.Rate, r
	}
	if d.Verdict == Limited {
		d.HoldUS = 0
	}
	return d
}

// Degrade is the answer when the store could not give one: each limit's on_error says what counts for
// it. An enforcing "deny" answers at once. Otherwise the checks in local are left to the in-memory store,
// each with this instance's share; allow and local among them are in the order of strictness, and the
// limits that say "allow" have no numbers.
//
// Where a client could have caused the failure, "allow" counts as "local": nobody can buy themselves
// free of a limit by overloading Redis.
func Degrade(checks, local []limits.Check, clientCaused bool) ([]limits.Check, Decision) {
	var d Decision
	for _, c := range checks {
		by := OnError(c.Limit, clientCaused)
		if by == ByLocal {
			c.Rate = c.Rate.Local()
			local = append(local, c)
		}
		if !c.Limit.Shadow && by > d.Degraded {
			d.Degraded, d.Limit = by, c.Limit
		}
	}
	if d.Degraded == ByDeny {
		d.Verdict = Unavailable
	}
	return local, d
}

func OnError(l *limits.Limit, clientCaused bool) Degraded {
	switch {
	case l.OnError == limits.OnErrorDeny:
		return ByDeny
	case l.OnError == limits.OnErrorAllow && !clientCaused:
		return ByAllow
	}
	return ByLocal
}

// TooManyHeld refuses because no more answers can be held: a second later there may be room again.
func TooManyHeld(c *limits.Check) Decision {
	return Decision{Verdict: Limited, Limit: c.Limit, Rate: c.Rate, Result: store.Result{WaitUS: 1_000_000}}
}

// Holding is the first check that may ask for its answer to be held.
func Holding(checks []limits.Check) *limits.Check {
	for i := range checks {
		if Holds(checks[i].Limit) {
			return &checks[i]
		}
	}
	return nil
}

// Holds says whether the limit may ask for answers to be held.
func Holds(l *limits.Limit) bool { return l.Algorithm == limits.LeakyBucket && !l.Shadow }

// longer compares waits; -1 is for ever.
func longer(a, b int64) bool { return b != -1 && (a == -1 || a > b) }

// less says exactly whether a/capA < b/capB.
func less(a, capA, b, capB int64) bool {
	highA, lowA := bits.Mul64(uint64(a), uint64(capB))
	highB, lowB := bits.Mul64(uint64(b), uint64(capA))
	return highA < highB || highA == highB && lowA < lowB
}
