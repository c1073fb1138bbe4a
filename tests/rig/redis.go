package rig

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a real redis-server of this test's own, on a unix socket in a temporary folder.
type RedisServer struct {
	*redis.Client
	Socket string
	Cmd    *exec.Cmd
	Exited chan struct{} // closed when the process is gone
}

// URL is what --redis takes.
func (r *RedisServer) URL() string { return "unix://" + r.Socket }

func (r *RedisServer) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	SignalTo(t, r.Cmd, sig)
}

// SignalTo sends a signal. To stop takes a process as long as it takes a thread of it to run: it is
// awaited, so that none of the others answers meanwhile.
func SignalTo(t testing.TB, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if sig != syscall.SIGSTOP {
		return
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("%s: status %v, %v, want it stopped", cmd.Path, status, err)
	}
}

// StartRedis starts a redis-server with nothing saved to disk, and ends it with the test.
// An argument with "=" goes to its environment, the others to its command line.
func StartRedis(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	dir := SocketDir(t)
	r := &RedisServer{Socket: filepath.Join(dir, "redis.sock"), Exited: make(chan struct{})}
	r.Cmd = exec.Command("redis-server", "--port", "0", "--unixsocket", r.Socket, "--dir", dir,
		"--save", "", "--appendonly", "no")
	r.Cmd.Env = os.Environ()
	for _, a := range args {
		if strings.Contains(a, "=") {
			r.Cmd.Env = append(r.Cmd.Env, a)
		} else {
			r.Cmd.Args = append(r.Cmd.Args, a)
		}
	}
	AwaitLine(t, r.Cmd, r.Exited, "eady to accept connections")
	r.Client = redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket, MaxRetries: -1})
	t.Cleanup(func() { r.Close() })
	if err := r.Ping(context.Background()).Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

// SocketDir is a temporary folder with a path short enough for unix sockets (108 bytes), which
// t.TempDir with a test's name in it need not be.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "authz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// AwaitLine starts cmd and returns when its output has a line that contains want; the test fails
// with all that was printed if it ends first. The process is killed when the test ends.
func AwaitLine(t testing.TB, cmd *exec.Cmd, exited chan struct{}, want string) string {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	found := make(chan string, 1)
	var said strings.Builder
	go func() {
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for seen := false; lines.Scan(); {
			if !seen {
				fmt.Fprintln(&said, lines.Text())
				if seen = strings.Contains(lines.Text(), want); seen {
					found <- lines.Text()
				}
			}
		}
		cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGCONT)
		cmd.Process.Kill()
		<-exited
	})
	select {
	case line := <-found:
		return line
	case <-exited:
		t.Fatalf("%s ended before it said %q:\n%s", cmd.Args[0], want, said.String())
		return ""
	}
}

// Await returns when f says so, which is asked again and again; what names it. It is for what tells
// nobody when it happens.
func Await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within a minute", what)
		}
	}
}

// FreePort is a TCP port on which nobody listens, and that nobody else is given: not by the system, which
// gives any from 32768 on to whoever connects, nor by another test, nor as the port 10,000 above it, which
// nodes of a cluster use among themselves. Whoever closes it for a while gets it back.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 100 {
		_, first := firstPort()
		port := fmt.Sprint(first + int(nextPort.Add(1)%portsEach))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no free port among a hundred")
	return ""
}

var nextPort atomic.Uint32

const portsEach = 1000 // of each process

// firstPort is where the ports of this process begin. Each has a thousand of its own: it holds a socket that says so.
var firstPort = sync.OnceValues(func() (held net.Listener, first int) {
	for slot := range 10 {
		if l, err := net.Listen("unix", fmt.Sprintf("@authz-tests-%d", slot)); err == nil {
			return l, 10_000 + slot*portsEach
		}
	}
	panic("ten processes test here already")
})
