package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"authz/internal/store"
	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/tests/rig"
)

// onCluster are tests that share a cluster. Each finds it empty.
var onCluster = []struct {
	name string
	run  func(t *testing.T, c *rig.RedisCluster, s redisstore.Redis)
}{
	{"limits on one identity are one call", limitsOnOneIdentityAreOneCall},
	{"a request over several slots is charged whole or not at all", overSeveralSlots},
	{"it agrees with memory step by step", agreesInACluster},
	{"concurrent takers admit exactly the limit", exactInACluster},
	{"requests share calls", requestsShareCalls},
	{"a forgotten script is no news", aForgottenScriptIsNoNews},
	{"what is closed leaves nothing", whatIsClosedLeavesNothing},
	{"a race between peek and take is rarely lost", racesAreRare},
	{"slots move under load", slotsMoveUnderLoad},
	{"the account in the README is enough", theReadmesAccount},
	{"the commands take a cluster like any Redis", theCommandsTakeACluster},
}

func TestACluster(t *testing.T) {
	c := rig.StartCluster(t)
	s := rig.OpenCluster(t, c)
	for _, test := range onCluster {
		t.Run(test.name, func(t *testing.T) {
			c.Flush(t)
			test.run(t, c, s)
		})
	}
}

func limitsOnOneIdentityAreOneCall(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	year := int64(366 * 86400e6)
	for i := range 20 { // 20 identities are on all nodes
		user := fmt.Sprint("ip=203.0.113.", i)
		checks := []limits.Check{
			rig.Check(rig.NewLimit(t, "bucket", "token_bucket", 10, year, 10), user, 1),
			rig.Check(rig.NewLimit(t, "tight", "sliding_window", 1, year, 0), user, 1),
			rig.Check(rig.NewLimit(t, "window", "fixed_window", 10, year, 0), user, 1),
		}
		before := c.Calls(t, "evalsha")
		rig.Same(t, rig.KindOf(s, checks...)+" "+rig.KindOf(s, checks...), "admitted refused")
		rig.Same(t, fmt.Sprint(c.Calls(t, "evalsha")-before, c.Calls(t, "eval"), rig.Left(t, s, checks[0])), "2 0 9")
	}
}

// What a refused request is told is what a peek would tell; and what would have admitted it is not
// charged.
func overSeveralSlots(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	at := int64(1767225600e6)
	day := rig.NewLimit(t, "day", "fixed_window", 3, 86400e6, 0)
	queue := rig.NewLimit(t, "queue", "leaky_bucket", 1, 60e6, 5)
	shadow := rig.NewLimit(t, "shadow", "sliding_window", 1, 60e6, 0)
	shadow.Shadow = true
	var checks []limits.Check
	slots := map[int]bool{}
	for i, l := range []*limits.Limit{shadow, day, queue, day, shadow} { // the results keep this order
		checks = append(checks, rig.Check(l, fmt.Sprint("user=", i), 1))
		slots[c.SlotOf(string(checks[i].Key))] = true
	}
	if len(slots) != 5 {
		t.Fatalf("%d slots, want 5", len(slots))
	}
	take := func(peek bool) string {
		t.Helper()
		before := []store.Result{{Remaining: 7}}
		results, err := s.Take(context.Background(), at, checks, peek, before)
		if err != nil || len(results) != 6 || results[0] != before[0] {
			t.Fatal(results, err)
		}
		return fmt.Sprint(rig.Rows(results[1:]))
	}
	calls := c.Calls(t, "evalsha")
	rig.Same(t, take(true), "[[1 1 0 0] [1 3 0 0] [1 6 0 0] [1 3 0 0] [1 1 0 0]]")
	rig.Same(t, fmt.Sprint(c.Calls(t, "evalsha")-calls, c.Keys(t)), "5 0")
	rig.Same(t, take(false), "[[1 0 0 60000000] [1 2 0 86400000000] [1 5 0 60000000] [1 2 0 86400000000] [1 0 0 60000000]]")
	rig.Same(t, fmt.Sprint(c.Calls(t, "evalsha")-calls, c.Keys(t)), "15 5")
	rig.Same(t, take(false), "[[0 0 60000000 60000000] [1 1 0 86400000000] [1 4 60000000 120000000] [1 1 0 86400000000] [0 0 60000000 60000000]]")
	rig.Same(t, take(false), "[[0 0 60000000 60000000] [1 0 0 86400000000] [1 3 120000000 180000000] [1 0 0 86400000000] [0 0 60000000 60000000]]")
	calls = c.Calls(t, "evalsha")
	sets := c.Calls(t, "set")
	refused := "[[0 0 60000000 60000000] [0 0 86400000000 86400000000] [1 3 0 180000000] [0 0 86400000000 86400000000] [0 0 60000000 60000000]]"
	rig.Same(t, take(false)+take(true), refused+refused)
	rig.Same(t, fmt.Sprint(c.Calls(t, "evalsha")-calls, c.Calls(t, "set")-sets), "10 0")
}

// Most of the random requests are over two slots.
func agreesInACluster(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	for seed := range uint64(10) {
		c.Flush(t)
		rig.Agree(t, seed, 150, rig.StoreTaker(s), rig.StoreTaker(store.NewMemory(1000)))
	}
}

// As many as the limit says, however many ask at once, through two instances, for keys on all nodes.
func exactInACluster(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	stores := [2]store.Store{s, rig.OpenCluster(t, c)}
	for _, algorithm := range rig.Algorithms {
		l, want := rig.NewLimit(t, algorithm, algorithm, 100, 366*86400e6, 100), 100
		if algorithm == "leaky_bucket" {
			want++
		}
		var mu sync.Mutex
		admitted := map[string]int{}
		got := rig.AtOnce(64, 32, func(i int) string {
			for k := range 6 {
				user := fmt.Sprint("u", k)
				if kind := rig.KindOf(stores[i%2], rig.Check(l, user, 1)); kind == "admitted" {
					mu.Lock()
					admitted[user]++
					mu.Unlock()
				} else if kind != "refused" {
					return kind
				}
			}
			return "done"
		})
		rig.Same(t, fmt.Sprintln(algorithm, got, admitted), fmt.Sprintln(algorithm, "map[done:2048]",
			map[string]int{"u0": want, "u1": want, "u2": want, "u3": want, "u4": want, "u5": want}))
	}
}

// Each request is limited by address, in a queue, and by one of two customers: two slots. Many at once
// run into both limits. No limit is exceeded, and what was charged without being admitted was a race.
func racesAreRare(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	stores := [2]redisstore.Redis{s, rig.OpenCluster(t, c)}
	address := rig.NewLimit(t, "address", "leaky_bucket", 60, 366*86400e6, 59)
	customer := rig.NewLimit(t, "customer", "fixed_window", 400, 366*86400e6, 0)
	checks := func(i, n int) []limits.Check {
		return []limits.Check{rig.Check(address, fmt.Sprint("ip=203.0.113.", (i+n)%16), 1), rig.Check(customer, fmt.Sprint("customer=", i%2), 1)}
	}
	took := func() (sum, most int64) {
		for i := range 16 {
			used := 60 - rig.Left(t, s, checks(i, 0)[0])
			sum, most = sum+used, max(most, used)
		}
		return sum, most
	}
	ask := func(i, n int) string {
		cs := checks(i, n)
		results, err := stores[i%2].Take(context.Background(), 0, cs, false, nil)
		switch {
		case err != nil:
			return redisstore.Kind(err)
		case rig.Admitted(cs, results):
			return "admitted"
		case results[0].Allowed && results[0].WaitUS != 0:
			return "held though refused"
		}
		return "refused"
	}
	var calls atomic.Int64
	got := rig.AtOnce(64, 50, func(i int) string { return ask(i, int(calls.Add(1))) })
	byAddress, most := took()
	byCustomer := 800 - rig.Left(t, s, checks(0, 0)[1]) - rig.Left(t, s, checks(1, 0)[1])
	if most > 60 || byCustomer > 800 || got["admitted"]+got["refused"] != 3200 {
		t.Errorf("%v; %d is the most of an address, want 60; %d of two customers, want 800", got, most, byCustomer)
	}
	lost := byAddress + byCustomer - 2*int64(got["admitted"])
	if lost < 0 {
		t.Errorf("%d admitted, charged %d and %d, want no less", got["admitted"], byAddress, byCustomer)
	}
	t.Logf("of 3200 requests %d were admitted, and %d lost a race: a part of them was charged, though they were refused", got["admitted"], lost)

	// One after the other there are no races.
	for n := range 100 {
		rig.Same(t, ask(n%2, n), "refused")
	}
	again, _ := took()
	rig.Same(t, fmt.Sprint(again), fmt.Sprint(byAddress))
}
