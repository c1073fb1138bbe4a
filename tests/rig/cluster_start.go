package rig

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/internal/store/redisstore"
)

// RedisCluster is a real cluster of this test's own: three masters, and a replica of each.
type RedisCluster struct {
	Nodes []*ClusterNode
}

type ClusterNode struct {
	*RedisServer
	Addr string
	Gone bool // the test has ended or stopped it
}

// StartCluster starts six servers, and returns when each of them knows its place.
func StartCluster(t testing.TB, args ...string) *RedisCluster {
	t.Helper()
	c := new(RedisCluster)
	for range 6 {
		port := FreePort(t)
		c.Nodes = append(c.Nodes, &ClusterNode{RedisServer: StartRedis(t, append([]string{"--bind", "127.0.0.1", "--port", port,
			"--cluster-enabled", "yes", "--cluster-port", FreePort(t), "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)...),
			Addr: "127.0.0.1:" + port})
	}
	c.create(t)
	return c
}

// create makes a cluster of the servers.
func (c *RedisCluster) create(t testing.TB, flags ...string) {
	t.Helper()
	cli := exec.Command("redis-cli", append(flags, "--cluster", "create")...)
	for _, n := range c.Nodes {
		cli.Args = append(cli.Args, n.Addr)
	}
	cli.Args = append(cli.Args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := cli.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cli.Args, err, out)
	}
	Await(t, "cluster whose nodes know each other", func() bool {
		for _, n := range c.Nodes {
			slots, _ := n.ranges()
			unpaired := slices.ContainsFunc(slots, func(r redis.ClusterSlot) bool { return len(r.Nodes) != 2 })
			if len(slots) != 3 || unpaired || !n.Settled() {
				return false
			}
		}
		return true
	})
	c.Patience(t, "10000") // with the least, news is told often; now a busy machine must not look like a dead one
}

// Patience is how many milliseconds a node may say nothing.
func (c *RedisCluster) Patience(t testing.TB, ms string) {
	t.Helper()
	for _, n := range c.Nodes {
		if err := n.ConfigSet(context.Background(), "cluster-node-timeout", ms).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// Settled: the node sees all slots served, and if it is a replica it follows its master.
func (n *ClusterNode) Settled() bool {
	info, replication := n.ClusterInfo(context.Background()).Val(), n.Info(context.Background(), "replication").Val()
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
		strings.Contains(info, "cluster_slots_fail:0") &&
		(strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
}

func (c *RedisCluster) URL() string {
	addrs := make([]string, len(c.Nodes))
	for i, n := range c.Nodes {
		addrs[i] = n.Addr
	}
	return "redis://" + strings.Join(addrs, ",")
}

// Masters are the nodes with slots, as a node that is not gone sees it.
func (c *RedisCluster) Masters(t testing.TB) (masters []*ClusterNode) {
	t.Helper()
	for _, r := range c.Slots(t) {
		if n := c.node(t, r.Nodes[0].Addr); !slices.Contains(masters, n) {
			masters = append(masters, n)
		}
	}
	return masters
}

func (c *RedisCluster) Slots(t testing.TB) []redis.ClusterSlot {
	t.Helper()
	slots, err := c.alive().ranges()
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

// ranges is who has which slots, as this node sees it.
func (n *ClusterNode) ranges() ([]redis.ClusterSlot, error) {
	cmd := redis.NewClusterSlotsCmd(context.Background(), "cluster", "slots")
	err := n.Process(context.Background(), cmd)
	return cmd.Val(), err
}

// alive is the first node that is not gone.
func (c *RedisCluster) alive() *ClusterNode {
	return c.Nodes[slices.IndexFunc(c.Nodes, func(n *ClusterNode) bool { return !n.Gone })]
}

func (c *RedisCluster) node(t testing.TB, addr string) *ClusterNode {
	t.Helper()
	i := slices.IndexFunc(c.Nodes, func(n *ClusterNode) bool { return n.Addr == addr })
	if i < 0 {
		t.Fatalf("no node at %s", addr)
	}
	return c.Nodes[i]
}

// SlotOf is the slot of a key, as Redis says, and ownerOf the master that has it.
func (c *RedisCluster) SlotOf(key string) int {
	return int(c.alive().ClusterKeySlot(context.Background(), key).Val())
}

func (c *RedisCluster) OwnerOf(t testing.TB, slot int) *ClusterNode {
	t.Helper()
	for _, r := range c.Slots(t) {
		if slot >= r.Start && slot <= r.End {
			return c.node(t, r.Nodes[0].Addr)
		}
	}
	t.Fatalf("nobody has slot %d", slot)
	return nil
}

// Flush empties all masters.
func (c *RedisCluster) Flush(t testing.TB) {
	t.Helper()
	for _, n := range c.Masters(t) {
		n.RedisServer.Flush(t)
	}
}

// Calls is how often all masters have run a command.
func (c *RedisCluster) Calls(t testing.TB, command string) (n int) {
	t.Helper()
	for _, m := range c.Masters(t) {
		n += m.RedisServer.Calls(t, command)
	}
	return n
}

// Keys is how many keys there are.
func (c *RedisCluster) Keys(t testing.TB) (n int) {
	t.Helper()
	for _, m := range c.Masters(t) {
		n += int(m.DBSize(context.Background()).Val())
	}
	return n
}

// OpenCluster is a store on a cluster, with its scripts loaded.
func OpenCluster(t testing.TB, c *RedisCluster) redisstore.Redis {
	t.Helper()
	s := OpenRedisURL(t, c.URL(), 10e9)
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}
