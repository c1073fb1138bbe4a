package rig

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// BeginLoading restarts Redis with so much to read that it does not come to an end.
func BeginLoading(t *testing.T, s *Scene) {
	s.Redis.MustDo(t, "debug", "populate", "100000")
	s.Redis.MustDo(t, "save")
	s.Redis.Kill(t)
	s.Redis.StartAgain(t, "Server initialized", "--key-load-delay", "100", "--loading-process-events-interval-bytes", "1024")
	Await(t, "Redis that is loading", func() bool {
		return strings.HasPrefix(fmt.Sprint(s.Redis.Get(t.Context(), "x").Err()), "LOADING")
	})
}

func BeginBusy(t *testing.T, s *Scene) {
	done := make(chan struct{})
	t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		s.Redis.Eval(context.Background(), "while true do end", nil)
	}()
	Await(t, "busy Redis", func() bool { return strings.HasPrefix(fmt.Sprint(s.Redis.Get(t.Context(), "x").Err()), "BUSY") })
}

// Kill ends the server as a crash does.
func (r *RedisServer) Kill(t testing.TB) {
	t.Helper()
	r.Signal(t, syscall.SIGKILL)
	<-r.Exited
}

// StartAgain starts the server that was killed, as it was and with more on its command line, and waits
// for a line of its log.
func (r *RedisServer) StartAgain(t testing.TB, line string, args ...string) {
	t.Helper()
	again := exec.Command(r.Cmd.Args[0], append(r.Cmd.Args[1:], args...)...)
	again.Env = r.Cmd.Env
	r.Cmd, r.Exited = again, make(chan struct{})
	AwaitLine(t, r.Cmd, r.Exited, line)
}
