package tests

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/internal/store/redisstore"
)

// Requests in one slot share an EVALSHA, as with a single server; those in other slots of its node, a
// write of ours and a read of Redis's.
func requestsShareCalls(t *testing.T, c *redisCluster, s redisstore.Redis) {
	l := newLimit(t, "api", "token_bucket", 1000, 1e6, 1000)
	reads := func() (n int) {
		for _, m := range c.masters(t) {
			text := m.Info(context.Background(), "stats").Val()
			one, err := strconv.Atoi(regexp.MustCompile(`total_reads_processed:(\d+)`).FindStringSubmatch(text)[1])
			if err != nil {
				t.Fatal(err)
			}
			n += one
		}
		return n
	}
	run := func(user func(i int) string) (calls, messages int) {
		calls, messages = c.calls(t, "evalsha"), reads()
		got := atOnce(64, 100, func(i int) string { return strings.Replace(kindOf(s, check(l, user(i), 1)), "refused", "admitted", 1) })
		same(t, fmt.Sprint(got), "map[admitted:6400]")
		return c.calls(t, "evalsha") - calls, reads() - messages
	}
	if calls, _ := run(func(int) string { return "hot" }); calls > 6400/8 {
		t.Errorf("%d calls for 6400 requests of one key, want an eighth at most", calls)
	}
	if calls, messages := run(func(i int) string { return fmt.Sprint("own", i) }); calls < 3200 || messages > 3200 {
		t.Errorf("%d calls and %d messages for 6400 requests of 64 slots, want half as many messages at most", calls, messages)
	}
}

// C129: a script that a node has forgotten is sent again, and is no reason to ask who has which slots.
func aForgottenScriptIsNoNews(t *testing.T, c *redisCluster, s redisstore.Redis) {
	l := newLimit(t, "api", "fixed_window", 1e9, 366*86400e6, 0)
	looks := func() (n int) {
		for _, node := range c.nodes {
			n += node.redisServer.calls(t, "cluster|slots")
		}
		return n
	}
	before := looks()
	for range 5 {
		for _, m := range c.masters(t) { // this looks itself
			m.ScriptFlush(context.Background())
		}
		got := atOnce(32, 5, func(i int) string { return kindOf(s, check(l, fmt.Sprint("u", i), 1)) })
		same(t, fmt.Sprint(got), "map[admitted:160]")
	}
	same(t, fmt.Sprint(looks()-before), "5")
	if n := c.calls(t, "eval"); n == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
}

// C130: who cannot find out where its key is hears why, and in time.
func TestAClusterThatDoesNotAnswerIsAnError(t *testing.T) {
	l := newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0)
	c := check(l, "u", 1)
	says := func(kind, want, url string) {
		t.Helper()
		s := openRedisURL(t, url, 10*time.Second)
		same(t, url+" "+kindOf(s, c), url+" "+kind)
		for what, err := range map[string]error{"Load": s.Load(context.Background()), "Ping": s.Ping(context.Background())} {
			if !strings.HasPrefix(fmt.Sprint(err), want) {
				t.Errorf("%s: got %v, want %s", what, err, want)
			}
		}
	}
	says("network", "127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused", "redis://127.0.0.1:1?cluster=true")
	single, port := startRedisAt(t)
	says("other", "127.0.0.1:"+port+": ERR This instance has cluster support disabled", "redis://127.0.0.1:"+port+"?cluster=true")
	same(t, fmt.Sprint(single.DBSize(context.Background()).Val()), "0")
	half, port := startRedisAt(t, "--cluster-enabled", "yes", "--cluster-port", freePort(t), "--cluster-require-full-coverage", "no")
	half.ConfigSet(context.Background(), "cluster-announce-ip", "127.0.0.1")
	url := "redis://127.0.0.1:" + port + "?cluster=true"
	says("clusterdown", "CLUSTERDOWN 127.0.0.1:"+port+" knows of no slots", url)

	slot := int(half.ClusterKeySlot(context.Background(), string(c.Key)).Val())
	half.ClusterAddSlotsRange(context.Background(), slot, slot)
	await(t, "cluster with a slot", func() bool {
		return strings.Contains(half.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	s := openRedisURL(t, url, 10*time.Second)
	same(t, kindOf(s, c)+" "+kindOf(s, check(l, "v", 1))+" "+kindOf(s, c, check(l, "v", 1)), "admitted clusterdown clusterdown")
	same(t, fmt.Sprint(left(t, s, c)), "99")

	// With a node that hangs beside it, the others are asked all the same.
	hung, hungPort := startRedisAt(t)
	hung.signal(t, syscall.SIGSTOP)
	s = openRedisURL(t, "redis://127.0.0.1:"+hungPort+",127.0.0.1:"+port, 10*time.Second)
	same(t, kindOf(s, c), "admitted")
	s = openRedisURL(t, "redis://127.0.0.1:"+hungPort+"?cluster=true", 200*time.Millisecond)
	begun := time.Now()
	got := atOnce(100, 3, func(int) string { return kindOf(s, c, check(l, "v", 1)) })
	same(t, fmt.Sprint(got), "map[timeout:300]")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("three times 200 ms took %v", took)
	}
	hung.signal(t, syscall.SIGCONT)
}

func whatIsClosedLeavesNothing(t *testing.T, c *redisCluster, _ redisstore.Redis) {
	clients := func() (n int) {
		for _, node := range c.nodes {
			n += strings.Count(node.ClientList(context.Background()).Val(), "\n")
		}
		return n
	}
	goroutines, connections := runtime.NumGoroutine(), clients()
	s := openRedisURL(t, c.url(), 10*time.Second)
	l := newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0)
	got := atOnce(8, 5, func(i int) string {
		return kindOf(s, check(l, fmt.Sprint("u", i), 1), check(l, fmt.Sprint("v", i), 1))
	})
	same(t, fmt.Sprint(got), "map[admitted:40]")
	if clients() == connections {
		t.Error("there are no more connections than before")
	}
	s.Close()
	await(t, "end of all", func() bool { return runtime.NumGoroutine() <= goroutines && clients() <= connections })
}
