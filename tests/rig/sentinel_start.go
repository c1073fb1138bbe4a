package rig

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

// Sentinel is a real Sentinel of this test's own.
type Sentinel struct {
	*redis.Client
	Addr string
	Cmd  *exec.Cmd
}

// StartSentinels starts n Sentinels that watch over a master at a port of loopback, and call it main. In
// the lines of config, HERE is the port of each.
// They look at it
// more often than by default, and believe sooner that it is dead.
func StartSentinels(t testing.TB, n int, port string, config ...string) (sentinels []*Sentinel) {
	t.Helper()
	for range n {
		here, dir := FreePort(t), SocketDir(t)
		s := &Sentinel{Addr: "127.0.0.1:" + here}
		lines := append([]string{"bind 127.0.0.1", "port HERE", "dir " + dir, "unixsocket " + dir + "/sentinel.sock",
			fmt.Sprintf("sentinel monitor main 127.0.0.1 %s %d", port, n/2+1),
			"sentinel down-after-milliseconds main 1000", "sentinel failover-timeout main 5000"}, config...)
		file := filepath.Join(dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.Join(lines, "\n"), "HERE", here)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Cmd = exec.Command("redis-server", file, "--sentinel")
		AwaitLine(t, s.Cmd, make(chan struct{}), "+monitor master main")
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

// Master is what a Sentinel knows of it.
func (s *Sentinel) Master() map[string]string {
	cmd := redis.NewMapStringStringCmd(context.Background(), "sentinel", "master", "main")
	s.Process(context.Background(), cmd)
	return cmd.Val()
}
