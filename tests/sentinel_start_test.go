package tests

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// sentinel is a real Sentinel of this test's own.
type sentinel struct {
	*redis.Client
	addr string
	cmd  *exec.Cmd
}

// startSentinels starts n Sentinels that watch over a master at a port of loopback, and call it main. In
// the lines of config, HERE is the port of each.
// They look at it
// more often than by default, and believe sooner that it is dead.
func startSentinels(t testing.TB, n int, port string, config ...string) (sentinels []*sentinel) {
	t.Helper()
	for range n {
		here, dir := freePort(t), socketDir(t)
		s := &sentinel{addr: "127.0.0.1:" + here}
		lines := append([]string{"bind 127.0.0.1", "port HERE", "dir " + dir, "unixsocket " + dir + "/sentinel.sock",
			fmt.Sprintf("sentinel monitor main 127.0.0.1 %s %d", port, n/2+1),
			"sentinel down-after-milliseconds main 1000", "sentinel failover-timeout main 5000"}, config...)
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "HERE", here)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.cmd = exec.Command("redis-server", file, "--sentinel")
		awaitLine(t, s.cmd, make(chan struct{}), "+monitor master main")
		password := ""
		for _, line := range config {
			if text, ok := strings.CutPrefix(line, "requirepass "); ok {
				password = text
			}
		}
		s.Client = redis.NewClient(&redis.Options{Network: "unix", Addr: dir + "/sentinel.sock", Password: password, Protocol: 2})
		t.Cleanup(func() { s.Close() })
		if err := s.Do(context.Background(), "sentinel", "debug", "info-period", 500, "publish-period", 200).Err(); err != nil {
			t.Fatal(err)
		}
		sentinels = append(sentinels, s)
	}
	return sentinels
}

// awaitSentinels waits until each knows of the others, and of this many replicas.
func awaitSentinels(t testing.TB, sentinels []*sentinel, replicas int) {
	t.Helper()
	want := fmt.Sprint(len(sentinels)-1, " ", replicas, " master")
	await(t, "Sentinels that know each other", func() bool {
		for _, s := range sentinels {
			m := s.master()
			if got := m["num-other-sentinels"] + " " + m["num-slaves"] + " " + m["flags"]; got != want {
				return false
			}
		}
		return true
	})
}

// master is what a Sentinel knows of it.
func (s *sentinel) master() map[string]string {
	cmd := redis.NewMapStringStringCmd(context.Background(), "sentinel", "master", "main")
	s.Process(context.Background(), cmd)
	return cmd.Val()
}

// sentinelURL is what --redis takes.
func sentinelURL(sentinels []*sentinel, options string) string {
	addrs := make([]string, len(sentinels))
	for i, s := range sentinels {
		addrs[i] = s.addr
	}
	return "redis://" + strings.Join(addrs, ",") + "?master=main" + options
}
