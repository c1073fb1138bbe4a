package tests

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/internal/store/redisstore"
)

// redisCluster is a real cluster of this test's own: three masters, and a replica of each.
type redisCluster struct {
	nodes []*clusterNode
}

type clusterNode struct {
	*redisServer
	addr string
	gone bool // the test has ended or stopped it
}

// startCluster starts six servers, and returns when each of them knows its place.
func startCluster(t testing.TB, args ...string) *redisCluster {
	t.Helper()
	c := new(redisCluster)
	for range 6 {
		port := freePort(t)
		c.nodes = append(c.nodes, &clusterNode{redisServer: startRedis(t, append([]string{"--bind", "127.0.0.1", "--port", port,
			"--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}, args...)...),
			addr: "127.0.0.1:" + port})
	}
	c.create(t)
	return c
}

// startClusterOfOne starts a single server that has all slots.
func startClusterOfOne(t testing.TB, args ...string) (r *redisServer, port string) {
	t.Helper()
	r, port = startRedisAt(t, append([]string{"--cluster-enabled", "yes", "--cluster-port", freePort(t)}, args...)...)
	r.ConfigSet(context.Background(), "cluster-announce-ip", "127.0.0.1")
	r.ClusterAddSlotsRange(context.Background(), 0, 16383)
	await(t, "cluster of one", (&clusterNode{redisServer: r}).settled)
	return r, port
}

// create makes a cluster of the servers.
func (c *redisCluster) create(t testing.TB, flags ...string) {
	t.Helper()
	cli := exec.Command("redis-cli", append(flags, "--cluster", "create")...)
	for _, n := range c.nodes {
		cli.Args = append(cli.Args, n.addr)
	}
	cli.Args = append(cli.Args, "--cluster-replicas", "1", "--cluster-yes")
	if out, err := cli.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cli.Args, err, out)
	}
	await(t, "cluster whose nodes know each other", func() bool {
		for _, n := range c.nodes {
			slots, _ := n.ranges()
			unpaired := slices.ContainsFunc(slots, func(r redis.ClusterSlot) bool { return len(r.Nodes) != 2 })
			if len(slots) != 3 || unpaired || !n.settled() {
				return false
			}
		}
		return true
	})
	c.patience(t, "10000") // with the least, news is told often; now a busy machine must not look like a dead one
}

// patience is how many milliseconds a node may say nothing.
func (c *redisCluster) patience(t testing.TB, ms string) {
	t.Helper()
	for _, n := range c.nodes {
		if err := n.ConfigSet(context.Background(), "cluster-node-timeout", ms).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// settled: the node sees all slots served, and if it is a replica it follows its master.
func (n *clusterNode) settled() bool {
	info, replication := n.ClusterInfo(context.Background()).Val(), n.Info(context.Background(), "replication").Val()
	return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_slots_assigned:16384") &&
		strings.Contains(info, "cluster_slots_fail:0") &&
		(strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up"))
}

func (c *redisCluster) url() string {
	addrs := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addrs[i] = n.addr
	}
	return "redis://" + strings.Join(addrs, ",")
}

// masters are the nodes with slots, as a node that is not gone sees it.
func (c *redisCluster) masters(t testing.TB) (masters []*clusterNode) {
	t.Helper()
	for _, r := range c.slots(t) {
		if n := c.node(t, r.Nodes[0].Addr); !slices.Contains(masters, n) {
			masters = append(masters, n)
		}
	}
	return masters
}

func (c *redisCluster) slots(t testing.TB) []redis.ClusterSlot {
	t.Helper()
	slots, err := c.alive().ranges()
	if err != nil {
		t.Fatal(err)
	}
	return slots
}

// ranges is who has which slots, as this node sees it.
func (n *clusterNode) ranges() ([]redis.ClusterSlot, error) {
	cmd := redis.NewClusterSlotsCmd(context.Background(), "cluster", "slots")
	err := n.Process(context.Background(), cmd)
	return cmd.Val(), err
}

// alive is the first node that is not gone.
func (c *redisCluster) alive() *clusterNode {
	return c.nodes[slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return !n.gone })]
}

func (c *redisCluster) node(t testing.TB, addr string) *clusterNode {
	t.Helper()
	i := slices.IndexFunc(c.nodes, func(n *clusterNode) bool { return n.addr == addr })
	if i < 0 {
		t.Fatalf("no node at %s", addr)
	}
	return c.nodes[i]
}

// slotOf is the slot of a key, as Redis says, and ownerOf the master that has it.
func (c *redisCluster) slotOf(key string) int {
	return int(c.alive().ClusterKeySlot(context.Background(), key).Val())
}

func (c *redisCluster) ownerOf(t testing.TB, slot int) *clusterNode {
	t.Helper()
	for _, r := range c.slots(t) {
		if slot >= r.Start && slot <= r.End {
			return c.node(t, r.Nodes[0].Addr)
		}
	}
	t.Fatalf("nobody has slot %d", slot)
	return nil
}

// flush empties all masters.
func (c *redisCluster) flush(t testing.TB) {
	t.Helper()
	for _, n := range c.masters(t) {
		n.redisServer.flush(t)
	}
}

// calls is how often all masters have run a command.
func (c *redisCluster) calls(t testing.TB, command string) (n int) {
	t.Helper()
	for _, m := range c.masters(t) {
		n += m.redisServer.calls(t, command)
	}
	return n
}

// keys is how many keys there are.
func (c *redisCluster) keys(t testing.TB) (n int) {
	t.Helper()
	for _, m := range c.masters(t) {
		n += int(m.DBSize(context.Background()).Val())
	}
	return n
}

// openCluster is a store on a cluster, with its scripts loaded.
func openCluster(t testing.TB, c *redisCluster) redisstore.Redis {
	t.Helper()
	s := openRedisURL(t, c.url(), 10e9)
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	return s
}
