package rig

import (
	"context"
	"maps"
	"strings"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

// A Load is callers that take, each time one of some limits, as long as goesOn is called.
type Load struct {
	Users   []string
	Limits  []*limits.Limit
	Several bool   // all limits at once
	Beside  string // and the last of them of this user, too

	budget  chan struct{} // a take each
	callers sync.WaitGroup
	takes   sync.WaitGroup // that have not ended

	mu       sync.Mutex
	Outcomes map[string]int // by limit, if it is one, user and kindOf
}

// StartLoad begins with as many callers.
func StartLoad(t *testing.T, callers int, s store.Store, l *Load) *Load {
	l.budget, l.Outcomes = make(chan struct{}, 40), map[string]int{}
	for i := range callers {
		l.callers.Go(func() {
			for n := i; ; n++ {
				if _, ok := <-l.budget; !ok {
					return
				}
				outcome := l.take(s, n)
				l.mu.Lock()
				l.Outcomes[outcome]++
				l.mu.Unlock()
				l.takes.Done()
			}
		})
	}
	t.Cleanup(l.End)
	return l
}

func (l *Load) take(s store.Store, n int) string {
	user := l.Users[n%len(l.Users)]
	if !l.Several {
		limit := l.Limits[n/len(l.Users)%len(l.Limits)]
		return limit.Name + " " + user + " " + KindOf(s, Check(limit, user, 1))
	}
	var checks []limits.Check
	for _, limit := range l.Limits {
		checks = append(checks, Check(limit, user, 1))
	}
	if l.Beside != "" {
		checks = append(checks, Check(l.Limits[len(l.Limits)-1], l.Beside, 1))
	}
	return "several " + user + " " + KindOf(s, checks...)
}

// GoesOn is for n more takes, the last of which are under way when it returns.
func (l *Load) GoesOn(n int) {
	l.takes.Add(n)
	for range n {
		l.budget <- struct{}{}
	}
}

// KindsOf is n more takes, and how often each kind came when they have ended.
func (l *Load) KindsOf(n int) map[string]int {
	l.takes.Wait()
	before := l.Kinds()
	l.GoesOn(n)
	l.takes.Wait()
	kinds := l.Kinds()
	maps.DeleteFunc(kinds, func(kind string, n int) bool { return n == before[kind] })
	for kind := range kinds {
		kinds[kind] -= before[kind]
	}
	return kinds
}

func (l *Load) End() {
	if l.budget != nil {
		close(l.budget)
	}
	l.callers.Wait()
	l.budget = nil
}

// Kinds is how often each kind came.
func (l *Load) Kinds() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds := map[string]int{}
	for outcome, n := range l.Outcomes {
		kinds[strings.Fields(outcome)[2]] += n
	}
	return kinds
}

// Move moves a slot to another node as redis-cli does, one key at a time, and lets the load go on
// between the steps.
func (c *RedisCluster) Move(t *testing.T, slot int, from, to *ClusterNode, meanwhile func()) {
	t.Helper()
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	id := func(n *ClusterNode) string { return n.Do(ctx, "cluster", "myid").Val().(string) }
	must(to.Do(ctx, "cluster", "setslot", slot, "importing", id(from)).Err())
	must(from.Do(ctx, "cluster", "setslot", slot, "migrating", id(to)).Err())
	meanwhile()
	for {
		keys, err := from.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		must(err)
		if len(keys) == 0 {
			break
		}
		must(from.Do(ctx, "migrate", "127.0.0.1", to.Addr[len("127.0.0.1:"):], keys[0], 0, 5000).Err())
		meanwhile()
	}
	must(to.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
	meanwhile()
	must(from.Do(ctx, "cluster", "setslot", slot, "node", id(to)).Err())
	meanwhile()
}
