package replay

import (
	"testing"

	"authz/internal/testkit"
	"authz/limits"
)

// Replay names the limit that the service would name: of those that refuse, the one with the longest wait.
func TestReplayNamesTheLimitWithTheLongestWait(t *testing.T) {
	set := testkit.Limits(t, `
		[limit.a]
		key       = []
		algorithm = "fixed_window"
		rate      = "1/m"
		[limit.b]
		key       = []
		algorithm = "fixed_window"
		rate      = "1/h"
		[limit.c]
		key       = []
		algorithm = "fixed_window"
		rate      = "1/d"
		mode      = "shadow"`)
	p := newPolicy(set, nil)
	var m limits.Match
	set.Match(&limits.Attrs{Path: []byte("/")}, &m)
	for i, want := range []string{"", "limit.b"} {
		p.decide(1e15, &outcome{verdict: m.Verdict, checks: m.Checks})
		if got := p.last.table + p.last.name; got != want {
			t.Errorf("request %d: refused by %q, want %q", i+1, got, want)
		}
	}
	if p.admitted != 1 || p.limited != 1 || p.limits[2].refused != 1 {
		t.Errorf("%d admitted, %d limited, %d refused by the shadow, want 1 each", p.admitted, p.limited, p.limits[2].refused)
	}
}
