package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

// Who knows of the latest change is believed about the slots, not who answers first: a node that was away
// still thinks what was true then, and one that the others cannot reach says that its cluster does not work.
func TestAStaleNodeIsNotBelievedAboutTheSlots(t *testing.T) {
	l := rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0)
	fresh, port := startClusterOfOne(t)
	fresh.MustDo(t, "cluster", "set-config-epoch", "7")
	wrong := func(name string, stale *rig.RedisServer, stalePort string) {
		t.Helper()
		stale.Flush(t)
		url := "redis://127.0.0.1:" + stalePort + ",127.0.0.1:" + port
		for i := range 10 {
			rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, url, 10*time.Second), rig.Check(l, fmt.Sprint(name, i), 1)), "admitted")
		}
		rig.Same(t, name+" "+fmt.Sprint(stale.DBSize(context.Background()).Val()), name+" 0")
	}
	stale, stalePort := startClusterOfOne(t)
	stale.MustDo(t, "cluster", "set-config-epoch", "6")
	wrong("stale", stale, stalePort)

	cut, cutPort := startClusterOfOne(t)
	cut.MustDo(t, "cluster", "set-config-epoch", "8")
	cut.MustDo(t, "cluster", "delslots", "0")
	rig.Await(t, "cluster that does not work", func() bool {
		return strings.Contains(cut.ClusterInfo(context.Background()).Val(), "cluster_state:fail")
	})
	wrong("cut off", cut, cutPort)
	rig.Same(t, fmt.Sprint(fresh.DBSize(context.Background()).Val()), "20")
}
