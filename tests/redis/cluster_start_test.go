package redis

import (
	"context"
	"testing"

	"authz/tests/rig"
)

// startClusterOfOne starts a single server that has all slots.
func startClusterOfOne(t testing.TB, args ...string) (r *rig.RedisServer, port string) {
	t.Helper()
	r, port = startRedisAt(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", rig.FreePort(t)}, args...)...)
	r.ConfigSet(context.Background(), "cluster-announce-ip", "127.0.0.1")
	r.ClusterAddSlotsRange(context.Background(), 0, 16383)
	rig.Await(t, "cluster of one", (&rig.ClusterNode{RedisServer: r}).Settled)
	return r, port
}
