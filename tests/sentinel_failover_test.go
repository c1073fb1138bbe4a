package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A service goes on at the new master: after a failover that was asked for, which leaves the old master
// alive as a replica, and after one because the master was killed while a Sentinel hung.
func TestAFailoverBySentinelIsFollowed(t *testing.T) {
	master, port := startRedisAt(t)
	first, _ := startRedisAt(t, "--replicaof", "127.0.0.1 "+port)
	second, _ := startRedisAt(t, "--replicaof", "127.0.0.1 "+port)
	servers := []*redisServer{master, first, second}
	awaitFollowers(t, servers, 2)
	sentinels := startSentinels(t, 3, port, "requirepass w4tchword", "sentinel sentinel-pass w4tchword")
	awaitSentinels(t, sentinels, 2)
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("w4tchword\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	limits := limitsFile(t, `[limit.all]
key       = []
algorithm = "fixed_window"
rate      = "1000/366d"
on_error  = "deny"
`)
	a := startAuthz(t, "--limits="+limits, "--redis="+sentinelURL(sentinels, ""), "--redis-sentinel-password-file="+password, "--redis-timeout=1s")
	c := a.checker()
	ask := func() (status string, left int) {
		t.Helper()
		text := c.check(t, "GET /", nil, "RateLimit")
		status, _, _ = strings.Cut(text, " ")
		if status == "200" {
			fmt.Sscanf(text[strings.Index(text, ";r=")+3:], "%d", &left)
		} else if status != "503" {
			t.Fatalf("%s, want 200 or 503", text)
		}
		return status, left
	}
	status, left := ask()
	same(t, fmt.Sprint(status, " ", left), "200 999")

	// goesOn: after some 503, all is as before, and no more is left than those that were admitted leave.
	goesOn := func(what string, done func() bool) {
		t.Helper()
		admitted, sent, was := 0, 0, left
		await(t, what, func() bool {
			status, now := ask()
			sent++
			if status == "200" {
				admitted, left = admitted+1, now
			}
			return status == "200" && done()
		})
		for range 20 {
			status, left = ask()
			same(t, what+" "+status, what+" 200")
		}
		if used := was - left; used < 20+admitted || used > 20+sent {
			t.Errorf("%s: %d charged, want %d that were admitted, or %d that were sent", what, used, 20+admitted, 20+sent)
		}
	}
	awaitFollowers(t, servers, 2)
	same(t, sentinels[0].Do(context.Background(), "sentinel", "failover", "main").String(), "sentinel failover main: OK")
	await(t, "replica where the master was", func() bool { return master.role() == "slave" })
	goesOn("failover that was asked for", func() bool { return true })

	awaitSentinels(t, sentinels, 2)
	awaitFollowers(t, servers, 2)
	killed, other := first, second
	if first.role() == "slave" {
		killed, other = second, first
	}
	signalTo(t, sentinels[0].cmd, syscall.SIGSTOP)
	killed.signal(t, syscall.SIGKILL)
	goesOn("failover after a death", func() bool { return other.role() == "master" || master.role() == "master" })
	same(t, strings.Repeat("secret", strings.Count(a.logged(), "w4tchword")), "")
}

// role is master or slave.
func (r *redisServer) role() string {
	_, after, _ := strings.Cut(r.Info(context.Background(), "replication").Val(), "role:")
	role, _, _ := strings.Cut(after, "\r\n")
	return role
}

// awaitFollowers waits until this many of the servers are replicas that have all.
func awaitFollowers(t *testing.T, servers []*redisServer, n int) {
	t.Helper()
	await(t, "replicas that have all", func() bool {
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
