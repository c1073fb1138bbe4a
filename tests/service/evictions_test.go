package service

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

const evictedKeys = "authz_redis_evicted_keys_total"

// C112: what Redis evicts is a number to watch.
func TestEvictedKeysAreCounted(t *testing.T) {
	t.Parallel() // it waits for what is read every few seconds
	r := rig.StartRedis(t, "--maxmemory", "2mb", "--maxmemory-policy", "allkeys-lru")
	evicted := func() string {
		return regexp.MustCompile(`evicted_keys:(\d+)`).FindStringSubmatch(r.Info(context.Background(), "stats").Val())[1]
	}
	fill := func() {
		before := evicted()
		for i := 0; evicted() == before; i++ {
			r.MustDo(t, "set", fmt.Sprint("filler", before, i), strings.Repeat("x", 10_000))
		}
	}
	fill() // before there is anybody to count
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=20s")
	rig.Same(t, a.Metrics(t, evictedKeys), evictedKeys+" 0\n")
	fill()
	rig.Await(t, "evicted key that is counted", func() bool { return a.Counted(t, evictedKeys) > 0 })
}

// In a cluster those of all masters are counted together, those of one that has started anew too.
func TestEvictedKeysOfAClusterAreCountedTogether(t *testing.T) {
	t.Parallel()
	a, b := rig.StartPuppet(t, rig.Admits), rig.StartPuppet(t, rig.Admits)
	evict := func(n *rig.Puppet, keys int) {
		n.Inform(fmt.Sprintf("# Stats\r\nevicted_keys:%d\r\nother:1\r\n", keys))
	}
	both := "*2\r\n"
	for i, n := range []*rig.Puppet{a, b} {
		both += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*3\r\n$0\r\n\r\n:%s\r\n$40\r\n%040d\r\n", i*8192, i*8192+8191, n.Port, i)
	}
	a.Own(both)
	b.Own(a.Owners)
	evict(a, 3)
	evict(b, 10)
	s := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=redis://127.0.0.1:"+a.Port+",127.0.0.1:"+b.Port, "--redis-timeout=20s")
	counted := func(n int) {
		t.Helper()
		rig.Await(t, fmt.Sprint(n, " evicted keys that are counted"), func() bool { return s.Metrics(t, evictedKeys) == fmt.Sprintf("%s %d\n", evictedKeys, n) })
	}
	counted(0)
	evict(a, 5)
	evict(b, 11)
	counted(3)
	evict(b, 2) // of a server that has started anew
	counted(5)
}

// Where the account may not ask there is nothing to see, and nothing that says 0.
func TestEvictedKeysAreNotCountedWhereTheAccountMayNotAsk(t *testing.T) {
	r := rig.StartRedis(t)
	r.MustDo(t, "acl", "setuser", "authz", "on", ">pass", "~*", "+@all", "-info")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=unix://authz:pass@"+r.Socket, "--redis-timeout=20s")
	rig.Same(t, a.Checker().Check(t, "GET /deny", nil), "200")
	rig.Same(t, a.Metrics(t, evictedKeys), "")
	if stats := r.Info(context.Background(), "commandstats").Val(); !regexp.MustCompile(`cmdstat_info:.*,rejected_calls=[1-9]`).MatchString(stats) {
		t.Errorf("it has not asked:\n%s", stats)
	}
}
