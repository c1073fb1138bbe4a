package rig

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// BreakerMetrics are a state and how often it has been open.
func (a *AuthzServer) BreakerMetrics(t *testing.T, want string) {
	t.Helper()
	Same(t, strings.NewReplacer("authz_breaker_", "", "\n", " ").Replace(a.Metrics(t, "authz_breaker_")), want+" ")
}

// WholeCommand reads a whole command as clients write them: *words, and for each $bytes and a line of so many.
func WholeCommand(from *bufio.Reader) (command []byte, err error) {
	line := func() (n int) {
		text, e := from.ReadBytes('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(text[1:])))
		}
		command = append(command, text...)
		return n
	}
	for words := line(); words > 0 && err == nil; words-- {
		word := make([]byte, line()+2)
		if err == nil {
			_, err = io.ReadFull(from, word)
		}
		command = append(command, word...)
	}
	return command, err
}

// FailToSave makes a Redis that cannot write its snapshot, and therefore takes no writes until it saves
// nothing any more.
func (r *RedisServer) FailToSave(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	if err := os.Mkdir(filepath.Join(filepath.Dir(r.Socket), "dump.rdb"), 0o755); err != nil { // what it would rename its file to
		t.Fatal(err)
	}
	r.ConfigSet(ctx, "save", "3600 1")
	r.Set(ctx, "changed", "x", 0)
	r.BgSave(ctx)
	Await(t, "end of the failing BGSAVE", func() bool {
		return strings.Contains(r.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
}
