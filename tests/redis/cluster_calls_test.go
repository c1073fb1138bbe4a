package redis

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
	"authz/tests/rig"
)

// Requests in one slot share an EVALSHA, as with a single server; those in other slots of its node, a
// write of ours and a read of Redis's.
func requestsShareCalls(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	l := rig.NewLimit(t, "api", "token_bucket", 1000, 1e6, 1000)
	reads := func() (n int) {
		for _, m := range c.Masters(t) {
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
		calls, messages = c.Calls(t, "evalsha"), reads()
		got := rig.AtOnce(64, 100, func(i int) string {
			return strings.Replace(rig.KindOf(s, rig.Check(l, user(i), 1)), "refused", "admitted", 1)
		})
		rig.Same(t, fmt.Sprint(got), "map[admitted:6400]")
		return c.Calls(t, "evalsha") - calls, reads() - messages
	}
	if calls, _ := run(func(int) string { return "hot" }); calls > 6400/8 {
		t.Errorf("%d calls for 6400 requests of one key, want an eighth at most", calls)
	}
	if calls, messages := run(func(i int) string { return fmt.Sprint("own", i) }); calls < 3200 || messages > 3200 {
		t.Errorf("%d calls and %d messages for 6400 requests of 64 slots, want half as many messages at most", calls, messages)
	}
}

// C129: a script that a node has forgotten is sent again, and is no reason to ask who has which slots.
func aForgottenScriptIsNoNews(t *testing.T, c *rig.RedisCluster, s redisstore.Redis) {
	l := rig.NewLimit(t, "api", "fixed_window", 1e9, 366*86400e6, 0)
	looks := func() (n int) {
		for _, node := range c.Nodes {
			n += node.RedisServer.Calls(t, "cluster|slots")
		}
		return n
	}
	before := looks()
	for range 5 {
		for _, m := range c.Masters(t) { // this looks itself
			m.ScriptFlush(context.Background())
		}
		got := rig.AtOnce(32, 5, func(i int) string { return rig.KindOf(s, rig.Check(l, fmt.Sprint("u", i), 1)) })
		rig.Same(t, fmt.Sprint(got), "map[admitted:160]")
	}
	rig.Same(t, fmt.Sprint(looks()-before), "5")
	if n := c.Calls(t, "eval"); n == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
}

// C130: who cannot find out where its key is hears why, and in time.
func TestAClusterThatDoesNotAnswerIsAnError(t *testing.T) {
	l := rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0)
	c := rig.Check(l, "u", 1)
	says := func(kind, want, url string) {
		t.Helper()
		s := rig.OpenRedisURL(t, url, 10*time.Second)
		rig.Same(t, url+" "+rig.KindOf(s, c), url+" "+kind)
		for what, err := range map[string]error{"Load": s.Load(context.Background()), "Ping": s.Ping(context.Background())} {
			if !strings.HasPrefix(fmt.Sprint(err), want) {
				t.Errorf("%s: got %v, want %s", what, err, want)
			}
		}
	}
	says("network", "127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused", "redis://127.0.0.1:1?cluster=true")
	single, port := startRedisAt(t)
	says("other", "127.0.0.1:"+port+": ERR This instance has cluster support disabled", "redis://127.0.0.1:"+port+"?cluster=true")
	rig.Same(t, fmt.Sprint(single.DBSize(context.Background()).Val()), "0")
	half, port := startRedisAt(t, "--cluster-enabled", "yes", "--cluster-port", rig.FreePort(t), "--cluster-require-full-coverage", "no")
	half.ConfigSet(context.Background(), "cluster-announce-ip", "127.0.0.1")
	url := "redis://127.0.0.1:" + port + "?cluster=true"
	says("clusterdown", "CLUSTERDOWN 127.0.0.1:"+port+" knows of no slots", url)

	slot := int(half.ClusterKeySlot(context.Background(), string(c.Key)).Val())
	half.ClusterAddSlotsRange(context.Background(), slot, slot)
	rig.Await(t, "cluster with a slot", func() bool {
		return strings.Contains(half.ClusterInfo(context.Background()).Val(), "cluster_state:ok")
	})
	s := rig.OpenRedisURL(t, url, 10*time.Second)
	rig.Same(t, rig.KindOf(s, c)+" "+rig.KindOf(s, rig.Check(l, "v", 1))+" "+rig.KindOf(s, c, rig.Check(l, "v", 1)), "admitted clusterdown clusterdown")
	rig.Same(t, fmt.Sprint(rig.Left(t, s, c)), "99")

	// With a node that hangs beside it, the others are asked all the same.
	hung, hungPort := startRedisAt(t)
	hung.Signal(t, syscall.SIGSTOP)
	s = rig.OpenRedisURL(t, "redis://127.0.0.1:"+hungPort+",127.0.0.1:"+port, 10*time.Second)
	rig.Same(t, rig.KindOf(s, c), "admitted")
	s = rig.OpenRedisURL(t, "redis://127.0.0.1:"+hungPort+"?cluster=true", 200*time.Millisecond)
	begun := time.Now()
	got := rig.AtOnce(100, 3, func(int) string { return rig.KindOf(s, c, rig.Check(l, "v", 1)) })
	rig.Same(t, fmt.Sprint(got), "map[timeout:300]")
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("three times 200 ms took %v", took)
	}
	hung.Signal(t, syscall.SIGCONT)
}

func whatIsClosedLeavesNothing(t *testing.T, c *rig.RedisCluster, _ redisstore.Redis) {
	clients := func() (n int) {
		for _, node := range c.Nodes {
			n += strings.Count(node.ClientList(context.Background()).Val(), "\n")
		}
		return n
	}
	goroutines, connections := runtime.NumGoroutine(), clients()
	s := rig.OpenRedisURL(t, c.URL(), 10*time.Second)
	l := rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0)
	got := rig.AtOnce(8, 5, func(i int) string {
		return rig.KindOf(s, rig.Check(l, fmt.Sprint("u", i), 1), rig.Check(l, fmt.Sprint("v", i), 1))
	})
	rig.Same(t, fmt.Sprint(got), "map[admitted:40]")
	if clients() == connections {
		t.Error("there are no more connections than before")
	}
	s.Close()
	rig.Await(t, "end of all", func() bool { return runtime.NumGoroutine() <= goroutines && clients() <= connections })
}
