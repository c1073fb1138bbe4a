package service

import (
	"testing"

	"authz/internal/decision"
	"authz/internal/store"
	"authz/limits"
)

func BenchmarkDecide(b *testing.B) {
	l := limits.Limit{Name: "api", Algorithm: limits.TokenBucket, Rate: limits.Rate{Count: 100, WindowUS: 1e6, Burst: 100, N: 1, W: 1e4, Capacity: 1e6}}
	check := limits.Check{Limit: &l, Rate: &l.Rate, Key: []byte("authz:v1:{ip=203.0.113.9}:api:tb"), Cost: 1}
	checks := []limits.Check{check, check, check}
	for _, c := range []struct {
		name    string
		results []store.Result
	}{
		{"admitted", []store.Result{{Allowed: true, Remaining: 9, ResetUS: 1e5}, {Allowed: true, Remaining: 5, ResetUS: 1e5}, {Allowed: true, Remaining: 7, ResetUS: 1e5}}},
		{"limited", []store.Result{{Allowed: true, Remaining: 9}, {WaitUS: 2e5, ResetUS: 1e6}, {WaitUS: 3e5, ResetUS: 1e6}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			want := decision.Admitted
			if c.name == "limited" {
				want = decision.Limited
			}
			b.ReportAllocs()
			for b.Loop() {
				if d := decision.Decide(checks, c.results); d.Verdict != want {
					b.Fatal(d)
				}
			}
		})
	}
}
