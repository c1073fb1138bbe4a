package redis

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// awaitSentinels waits until each knows of the others, and of this many replicas.
func awaitSentinels(t testing.TB, sentinels []*rig.Sentinel, replicas int) {
	t.Helper()
	want := fmt.Sprint(len(sentinels)-1, " ", replicas, " master")
	rig.Await(t, "Sentinels that know each other", func() bool {
		for _, s := range sentinels {
			m := s.Master()
			if got := m["num-other-sentinels"] + " " + m["num-slaves"] + " " + m["flags"]; got != want {
				return false
			}
		}
		return true
	})
}

// sentinelURL is what --redis takes.
func sentinelURL(sentinels []*rig.Sentinel, options string) string {
	addrs := make([]string, len(sentinels))
	for i, s := range sentinels {
		addrs[i] = s.Addr
	}
	return "redis://" + strings.Join(addrs, ",") + "?master=main" + options
}
