package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/internal/store/redisstore"
	"authz/limits"
)

// A master dies, or hangs, under load. Whose bucket is elsewhere notices nothing; the others meet errors
// until the replica has taken over, and then their counts go on.
//
// Redis replicates after it has answered. What is charged in the last instant before a master dies may
// be forgotten, and is admitted once more; so the load on that master rests until its replica has all.
func TestAMasterOfAClusterIsReplaced(t *testing.T) {
	c := startCluster(t)
	c.patience(t, "2000")
	turns := new(turns)
	s, err := redisstore.Open(redisstore.Options{URL: c.url(), Timeout: 5 * time.Second, Turned: turns.turned})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, loss := range []struct {
		how string
		sig syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		dead := c.loses(t, s, loss.how, loss.sig)
		// No other breaker has opened, and that one is nobody's concern any more.
		await(t, "breakers that are closed", func() bool { return s.Unreachable() == nil })
		if got := turns.take(); got != fmt.Sprintf("map[%s:0]", dead.addr) && (got != "map[]" || loss.how == "killed") {
			t.Errorf("%s: openings of breakers that have not closed: %s, want 0 of %s", loss.how, got, dead.addr)
		}
	}
}

// turns is which breakers have opened, and whether they are open.
type turns struct {
	mu   sync.Mutex
	open map[string]int
}

func (t *turns) turned(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]int{}
	}
	if err != nil && err != redisstore.ErrRetired {
		t.open[server]++
	} else {
		t.open[server]--
	}
}

func (t *turns) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprint(t.open)
	clear(t.open)
	return text
}

func (c *redisCluster) loses(t *testing.T, s redisstore.Redis, how string, sig syscall.Signal) (dead *clusterNode) {
	t.Helper()
	ranges := c.slots(t)
	one := ranges[slices.IndexFunc(ranges, func(r redis.ClusterSlot) bool { return len(r.Nodes) == 2 })]
	dead = c.node(t, one.Nodes[0].Addr)
	replica := c.node(t, one.Nodes[1].Addr)
	var users [2][]string // of others, and of the one that dies
	for i := range 40 {
		user, whose := fmt.Sprint(how, i), 0
		if c.ownerOf(t, c.slotOf("{"+user+"}")) == dead {
			whose = 1
		}
		users[whose] = append(users[whose], user)
	}
	l := newLimit(t, "api", "fixed_window", 300, 366*86400e6, 0)
	other := startLoad(t, 4, s, &load{users: users[0][1:], limits: []*limits.Limit{l}})
	hurt := startLoad(t, 4, s, &load{users: users[1], limits: []*limits.Limit{l}})
	other.goesOn(1000)
	same(t, fmt.Sprint(hurt.kindsOf(150*len(users[1]))), fmt.Sprint(map[string]int{"admitted": 150 * len(users[1])}))
	awaitReplica(t, dead, replica)

	dead.signal(t, sig)
	dead.gone = true
	hurt.goesOn(8)
	over := []limits.Check{check(l, users[0][0], 1), check(l, users[1][0], 1)}
	if kind := kindOf(s, over...); !slices.Contains(outages, kind) {
		t.Errorf("%s: a request that is over the master that is gone: %s, want an error", how, kind)
	}
	same(t, fmt.Sprint(left(t, s, over[0])), "300")
	await(t, "replica that has taken over", func() bool {
		other.goesOn(20)
		hurt.goesOn(4)
		return c.settledWith(replica)
	})
	for _, user := range users[1] {
		await(t, "new master in use", func() bool {
			_, err := s.Take(context.Background(), 0, []limits.Check{check(l, user, 1)}, true, nil)
			return err == nil
		})
	}

	// All is as before: every limit has been used up exactly.
	after := hurt.kindsOf(300 * len(users[1]))
	other.kindsOf(600 * len(users[0]))
	t.Log(how, other.kinds(), hurt.kinds())
	for _, kinds := range []map[string]int{after, other.kinds()} {
		delete(kinds, "admitted")
		delete(kinds, "refused")
		if len(kinds) > 0 {
			t.Errorf("%s: %v, want no errors", how, kinds)
		}
	}
	for _, load := range []*load{other, hurt} {
		load.end()
		for _, user := range load.users {
			same(t, fmt.Sprint(how, load.outcomes["api "+user+" admitted"]), how+"300")
		}
	}
	for kind := range hurt.kinds() {
		if kind != "admitted" && kind != "refused" && !slices.Contains(outages, kind) {
			t.Errorf("%s: an error of kind %s", how, kind)
		}
	}
	return dead
}

// outages are the kinds of error that a master that is gone may cause.
var outages = []string{"network", "timeout", "pool", "breaker", "clusterdown"}

// awaitReplica waits until a replica has all that its master has.
func awaitReplica(t *testing.T, master, replica *clusterNode) {
	t.Helper()
	offset := func(n *clusterNode, name string) string {
		_, after, _ := strings.Cut(n.Info(context.Background(), "replication").Val(), name+":")
		text, _, _ := strings.Cut(after, "\r\n")
		return text
	}
	await(t, "replica that has all", func() bool { return offset(master, "master_repl_offset") == offset(replica, "slave_repl_offset") })
}

// settledWith: all nodes that are not gone see all slots served, some of them by a former replica.
func (c *redisCluster) settledWith(replica *clusterNode) bool {
	for _, n := range c.nodes {
		if !n.gone && !n.settled() {
			return false
		}
	}
	return strings.Contains(replica.Info(context.Background(), "replication").Val(), "role:master")
}
