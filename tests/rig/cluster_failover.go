package rig

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/internal/store/redisstore"
	"authz/limits"
)

func (c *RedisCluster) Loses(t *testing.T, s redisstore.Redis, how string, sig syscall.Signal) (dead *ClusterNode) {
	t.Helper()
	ranges := c.Slots(t)
	one := ranges[slices.IndexFunc(ranges, func(r redis.ClusterSlot) bool { return len(r.Nodes) == 2 })]
	dead = c.node(t, one.Nodes[0].Addr)
	replica := c.node(t, one.Nodes[1].Addr)
	var users [2][]string // of others, and of the one that dies
	for i := range 40 {
		user, whose := fmt.Sprint(how, i), 0
		if c.OwnerOf(t, c.SlotOf("{"+user+"}")) == dead {
			whose = 1
		}
		users[whose] = append(users[whose], user)
	}
	l := NewLimit(t, "api", "fixed_window", 300, 366*86400e6, 0)
	other := StartLoad(t, 4, s, &Load{Users: users[0][1:], Limits: []*limits.Limit{l}})
	hurt := StartLoad(t, 4, s, &Load{Users: users[1], Limits: []*limits.Limit{l}})
	other.GoesOn(1000)
	Same(t, fmt.Sprint(hurt.KindsOf(150*len(users[1]))), fmt.Sprint(map[string]int{"admitted": 150 * len(users[1])}))
	awaitReplica(t, dead, replica)

	dead.Signal(t, sig)
	dead.Gone = true
	hurt.GoesOn(8)
	over := []limits.Check{Check(l, users[0][0], 1), Check(l, users[1][0], 1)}
	if kind := KindOf(s, over...); !slices.Contains(outages, kind) {
		t.Errorf("%s: a request that is over the master that is gone: %s, want an error", how, kind)
	}
	Same(t, fmt.Sprint(Left(t, s, over[0])), "300")
	Await(t, "replica that has taken over", func() bool {
		other.GoesOn(20)
		hurt.GoesOn(4)
		return c.settledWith(replica)
	})
	for _, user := range users[1] {
		Await(t, "new master in use", func() bool {
			_, err := s.Take(context.Background(), 0, []limits.Check{Check(l, user, 1)}, true, nil)
			return err == nil
		})
	}

	// All is as before: every limit has been used up exactly.
	after := hurt.KindsOf(300 * len(users[1]))
	other.KindsOf(600 * len(users[0]))
	t.Log(how, other.Kinds(), hurt.Kinds())
	for _, kinds := range []map[string]int{after, other.Kinds()} {
		delete(kinds, "admitted")
		delete(kinds, "refused")
		if len(kinds) > 0 {
			t.Errorf("%s: %v, want no errors", how, kinds)
		}
	}
	for _, load := range []*Load{other, hurt} {
		load.End()
		for _, user := range load.Users {
			Same(t, fmt.Sprint(how, load.Outcomes["api "+user+" admitted"]), how+"300")
		}
	}
	for kind := range hurt.Kinds() {
		if kind != "admitted" && kind != "refused" && !slices.Contains(outages, kind) {
			t.Errorf("%s: an error of kind %s", how, kind)
		}
	}
	return dead
}

// outages are the kinds of error that a master that is gone may cause.
var outages = []string{"network", "timeout", "pool", "breaker", "clusterdown"}

// awaitReplica waits until a replica has all that its master has.
func awaitReplica(t *testing.T, master, replica *ClusterNode) {
	t.Helper()
	offset := func(n *ClusterNode, name string) string {
		_, after, _ := strings.Cut(n.Info(context.Background(), "replication").Val(), name+":")
		text, _, _ := strings.Cut(after, "\r\n")
		return text
	}
	Await(t, "replica that has all", func() bool { return offset(master, "master_repl_offset") == offset(replica, "slave_repl_offset") })
}

// settledWith: all nodes that are not gone see all slots served, some of them by a former replica.
func (c *RedisCluster) settledWith(replica *ClusterNode) bool {
	for _, n := range c.Nodes {
		if !n.Gone && !n.Settled() {
			return false
		}
	}
	return strings.Contains(replica.Info(context.Background(), "replication").Val(), "role:master")
}
