package redis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// A service goes on at the new master: after a failover that was asked for, which leaves the old master
// alive as a replica, and after one because the master was killed while a Sentinel hung.
func TestAFailoverBySentinelIsFollowed(t *testing.T) {
	master, port := startRedisAt(t)
	first, _ := startRedisAt(t, "--replicaof", "127.0.0.1 "+port)
	second, _ := startRedisAt(t, "--replicaof", "127.0.0.1 "+port)
	servers := []*rig.RedisServer{master, first, second}
	awaitFollowers(t, servers, 2)
	sentinels := rig.StartSentinels(t, 3, port, "requirepass w4tchword", "sentinel sentinel-pass w4tchword")
	awaitSentinels(t, sentinels, 2)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("w4tchword\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	limits := rig.LimitsFile(t, `[limit.all]
key       = []
algorithm = "fixed_window"
rate      = "1000/366d"
on_error  = "deny"
`)
	a := rig.StartAuthz(t, "--limits="+limits, "--redis="+sentinelURL(sentinels, ""), "--redis-sentinel-password-file="+password, "--redis-timeout=1s")
	c := a.Checker()
	ask := func() (status string, left int) {
		t.Helper()
		text := c.Check(t, "GET /", nil, "RateLimit")
		status, _, _ = strings.Cut(text, " ")
		if status == "200" {
			fmt.Sscanf(text[strings.Index(text, ";r=")+3:], "%d", &left)
		} else if status != "503" {
			t.Fatalf("%s, want 200 or 503", text)
		}
		return status, left
	}
	status, left := ask()
	rig.Same(t, fmt.Sprint(status, " ", left), "200 999")

	// goesOn: after some 503, all is as before, and no more is left than those that were admitted leave.
	goesOn := func(what string, done func() bool) {
		t.Helper()
		admitted, sent, was := 0, 0, left
		rig.Await(t, what, func() bool {
			status, now := ask()
			sent++
			if status == "200" {
				admitted, left = admitted+1, now
			}
			return status == "200" && done()
		})
		for range 20 {
			status, left = ask()
			rig.Same(t, what+" "+status, what+" 200")
		}
		if used := was - left; used < 20+admitted || used > 20+sent {
			t.Errorf("%s: %d charged, want %d that were admitted, or %d that were sent", what, used, 20+admitted, 20+sent)
		}
	}
	awaitFollowers(t, servers, 2)
	rig.Same(t, sentinels[0].Do(context.Background(), "sentinel", "failover", "main").String(), "sentinel failover main: OK")
	rig.Await(t, "replica where the master was", func() bool { return master.Role() == "slave" })
	goesOn("failover that was asked for", func() bool { return true })

	awaitSentinels(t, sentinels, 2)
	awaitFollowers(t, servers, 2)
	killed, other := first, second
	if first.Role() == "slave" {
		killed, other = second, first
	}
	rig.SignalTo(t, sentinels[0].Cmd, syscall.SIGSTOP)
	killed.Signal(t, syscall.SIGKILL)
	goesOn("failover after a death", func() bool { return other.Role() == "master" || master.Role() == "master" })
	rig.Same(t, strings.Repeat("secret", strings.Count(a.Logged(), "w4tchword")), "")
}

// awaitFollowers waits until this many of the servers are replicas that have all.
func awaitFollowers(t *testing.T, servers []*rig.RedisServer, n int) {
	t.Helper()
	rig.Await(t, "replicas that have all", func() bool {
		offsets, following := map[string]int{}, 0
		for _, r := range servers {
			info := r.Info(context.Background(), "replication").Val()
			if strings.Contains(info, "master_link_status:up") {
				following++
			}
			for line := range strings.Lines(info) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				if name == "master_repl_offset" {
					offsets[value]++
				}
			}
		}
		return following == n && len(offsets) == 1
	})
}
