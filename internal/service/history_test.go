package service

import (
	"testing"
)

func TestAHistoryIsOfTheLastTenMinutes(t *testing.T) {
	s := serviceFor(t, tokens)
	h := &s.History
	h.sample(s.Rules.Load())
	name := s.Rules.Load().Set.Limits()[0].Name
	counters := s.Rules.Load().Of(s.Rules.Load().Set.Limits()[0])
	for range 3 {
		counters.Admitted.Add(30)
		counters.limited.Add(10)
		h.sample(s.Rules.Load())
	}
	one := h.Of(name)
	if a, r := LastMinute(&one.Admitted), LastMinute(&one.Refused); a != 1.5 || r != 0.5 {
		t.Errorf("%v admitted and %v refused a second in the last minute, want 1.5 and 0.5", a, r)
	}
	for range HistorySamples {
		h.sample(s.Rules.Load())
	}
	if one = h.Of(name); LastMinute(&one.Refused) != 0 || one.Refused[0] != 0 || (h.Of("none") != LimitHistory{}) {
		t.Errorf("after ten minutes: %+v", one)
	}
}

// A limit is near when less than a fifth of it is left.
func TestWhoComesNearALimitIsCounted(t *testing.T) {
	s := serviceFor(t, "[limit.login]\nkey = [\"ip\"]\nalgorithm = \"sliding_window\"\nrate = \"10/m\"\n")
	for range 12 {
		answers(t, s, "X-Original-URI: /login", "X-Real-IP: 203.0.113.9")
	}
	if got := shown(t, s, "authz_near_limit_total"); got != "authz_near_limit_total{limit=\"login\"} 2\n" {
		t.Errorf("got %s, want 2: with one left, and with none", got)
	}

	// The first of a bucket says nothing of how it goes on.
	s = serviceFor(t, "[limit.one]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"1/366d\"\n[limit.two]\nkey = []\nalgorithm = \"token_bucket\"\nrate = \"2/366d\"\n")
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.1")
	answers(t, s, "X-Original-URI: /", "X-Real-IP: 203.0.113.2")
	if got := shown(t, s, "authz_near_limit_total"); got != "authz_near_limit_total{limit=\"one\"} 0\nauthz_near_limit_total{limit=\"two\"} 1\n" {
		t.Errorf("got %s, want none of those that are alone, and the second of two", got)
	}
}
