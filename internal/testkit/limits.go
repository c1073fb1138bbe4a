package testkit

import (
	"authz/limits"
	"testing"
)

// LimitOf is 5 a minute under an algorithm, with a burst of 5 for the buckets.
func LimitOf(a limits.Algorithm) *limits.Limit {
	l := &limits.Limit{Name: a.String(), Algorithm: a, Rate: limits.Rate{Count: 5, WindowUS: 60e6, Burst: 5}}
	switch a {
	case limits.TokenBucket:
		l.Rate.N, l.Rate.W, l.Rate.Capacity = 1, 12e6, 5*12e6
	case limits.LeakyBucket:
		l.Rate.N, l.Rate.W, l.Rate.Capacity = 1, 12e6, 6*12e6
	}
	return l
}

func CheckOf(l *limits.Limit, key string) limits.Check {
	return limits.Check{Limit: l, Rate: &l.Rate, Key: []byte(key), Cost: 1}
}

func AllAlgorithms() (checks []limits.Check) {
	for _, a := range limits.Algorithms {
		checks = append(checks, CheckOf(LimitOf(a), a.String()))
	}
	return checks
}

// Limits is a set that is written as a limits file.
func Limits(t testing.TB, text string) *limits.Set {
	t.Helper()
	set, err := limits.Load("authz", WriteFile(t, "limits.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	return set
}
