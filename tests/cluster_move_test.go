package tests

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
)

// A load is callers that take, each time one of some limits, as long as goesOn is called.
type load struct {
	users   []string
	limits  []*limits.Limit
	several bool   // all limits at once
	beside  string // and the last of them of this user, too

	budget  chan struct{} // a take each
	callers sync.WaitGroup
	takes   sync.WaitGroup // that have not ended

	mu       sync.Mutex
	outcomes map[string]int // by limit, if it is one, user and kindOf
}

// startLoad begins with as many callers.
func startLoad(t *testing.T, callers int, s store.Store, l *load) *load {
	l.budget, l.outcomes = make(chan struct{}, 40), map[string]int{}
	for i := range callers {
		l.callers.Go(func() {
			for n := i; ; n++ {
				if _, ok := <-l.budget; !ok {
					return
				}
				outcome := l.take(s, n)
				l.mu.Lock()
				l.outcomes[outcome]++
				l.mu.Unlock()
				l.takes.Done()
			}
		})
	}
	t.Cleanup(l.end)
	return l
}

func (l *load) take(s store.Store, n int) string {
	user := l.users[n%len(l.users)]
	if !l.several {
		limit := l.limits[n/len(l.users)%len(l.limits)]
		return limit.Name + " " + user + " " + kindOf(s, check(limit, user, 1))
	}
	var checks []limits.Check
	for _, limit := range l.limits {
		checks = append(checks, check(limit, user, 1))
	}
	if l.beside != "" {
		checks = append(checks, check(l.limits[len(l.limits)-1], l.beside, 1))
	}
	return "several " + user + " " + kindOf(s, checks...)
}

// goesOn is for n more takes, the last of which are under way when it returns.
func (l *load) goesOn(n int) {
	l.takes.Add(n)
	for range n {
		l.budget <- struct{}{}
	}
}

// kindsOf is n more takes, and how often each kind came when they have ended.
func (l *load) kindsOf(n int) map[string]int {
	l.takes.Wait()
	before := l.kinds()
	l.goesOn(n)
	l.takes.Wait()
	kinds := l.kinds()
	maps.DeleteFunc(kinds, func(kind string, n int) bool { return n == before[kind] })
	for kind := range kinds {
		kinds[kind] -= before[kind]
	}
	return kinds
}

func (l *load) end() {
	if l.budget != nil {
		close(l.budget)
	}
	l.callers.Wait()
	l.budget = nil
}

// kinds is how often each kind came.
func (l *load) kinds() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := map[string]int{}
	for outcome, n := range l.outcomes {
		kinds[strings.Fields(outcome)[2]] += n
	}
	return kinds
}

// move moves a slot to another node as redis-cli does, one key at a time, and lets the load go on
// between the steps.
func (c *redisCluster) move(t *testing.T, slot int, from, to *clusterNode, meanwhile func()) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	id := func(n *clusterNode) string { return n.Do(ctx, "cluster", "myid").Val().(string) }
	must(to.Do(ctx, "cluster", "setslot", slot, "importing", id(from)).Err())
	must(from.Do(ctx, "cluster", "setslot", slot, "migrating", id(to)).Err())
	meanwhile()
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		must(err)
		if len(keys) == 0 {
			break
		}
		must(from.Do(ctx, "migrate", "127.0.0.1", to.addr[len("127.0.0.1:"):], keys[0], 0, 5000).Err())
		meanwhile()
	}
	must(to.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
	meanwhile()
	must(from.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
	meanwhile()
}

// roomy are limits of 10,000 in a time that does not end while a test runs.
func roomy(t *testing.T) (all []*limits.Limit) {
	for _, algorithm := range algorithms {
		windowUS, burst := int64(366*86400e6), int64(10000)
		switch algorithm {
		case "leaky_bucket":
			burst--
		case "sliding_counter":
			windowUS = 10 * 86400e6
		}
		all = append(all, newLimit(t, algorithm, algorithm, 10000, windowUS, burst))
	}
	return all
}

// Slots move under load, keys and all, there and back and there again: MOVED and ASK are followed, and
// so is TRYAGAIN, which requests for several keys meet when some of them have moved. Nobody meets an
// error, and what was admitted has been counted exactly.
func slotsMoveUnderLoad(t *testing.T, c *redisCluster, s redisstore.Redis) {
	all := roomy(t)
	tight := newLimit(t, "tight", "fixed_window", 500, 366*86400e6, 0)
	loads := []*load{
		startLoad(t, 6, s, &load{users: []string{"a", "b", "c"}, limits: all}),
		startLoad(t, 4, s, &load{users: []string{"x", "y", "z"}, limits: all, several: true}),
		startLoad(t, 4, openCluster(t, c), &load{users: []string{"a", "x"}, limits: all}),
		startLoad(t, 2, s, &load{users: []string{"x", "y"}, limits: all[1:], several: true, beside: "b"}), // over two slots
		startLoad(t, 2, s, &load{users: []string{"a", "x"}, limits: []*limits.Limit{tight}}),
	}
	meanwhile := func() {
		for _, l := range loads {
			l.goesOn(40)
		}
	}
	meanwhile()
	for _, user := range []string{"a", "x", "b", "y"} {
		slot := c.slotOf("{" + user + "}")
		from, to := c.ownerOf(t, slot), c.masters(t)[0]
		if to == from {
			to = c.masters(t)[1]
		}
		c.move(t, slot, from, to, meanwhile)
		c.move(t, slot, to, from, meanwhile)
		c.move(t, slot, from, to, meanwhile)
	}
	loads[4].goesOn(1000) // until it is refused
	admitted := map[string]int{}
	for i, l := range loads {
		l.end()
		kinds := l.kinds()
		t.Log(kinds)
		if delete(kinds, "admitted"); i == 4 {
			delete(kinds, "refused")
		}
		if len(kinds) > 0 {
			t.Errorf("load %d: %v, want all admitted", i, kinds)
		}
		for outcome, n := range l.outcomes {
			words := strings.Fields(outcome)
			switch {
			case l.several:
				for _, limit := range l.limits {
					admitted[limit.Name+" "+words[1]] += n
				}
				if l.beside != "" {
					admitted[l.limits[len(l.limits)-1].Name+" "+l.beside] += n
				}
			case words[2] == "admitted":
				admitted[words[0]+" "+words[1]] += n
			}
		}
	}
	for _, user := range []string{"a", "b", "c", "x", "y", "z"} {
		for _, l := range all {
			same(t, fmt.Sprint(l.Name, user, 10000-left(t, s, check(l, user, 1))), fmt.Sprint(l.Name, user, admitted[l.Name+" "+user]))
		}
	}
	same(t, fmt.Sprint(admitted["tight a"], admitted["tight x"]), "500 500")
}
