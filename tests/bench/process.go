package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A process is one that the benchmark has started and will stop.
type process struct {
	name   string // in the report: service, nginx, redis
	cmd    *exec.Cmd
	said   tail
	exited chan struct{}
}

// start starts a process, which ends with the benchmark, whatever becomes of that.
func start(name string, cmd *exec.Cmd) (*process, error) {
	p := &process{name: name, cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.said, &p.said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// awaitListening returns when somebody listens at addr.
func (p *process) awaitListening(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	network, address := splitAddr(addr)
	for {
		if c, err := net.Dial(network, address); err == nil {
			return c.Close()
		}
		select {
		case <-p.exited:
			return fmt.Errorf("%s ended at once: %s", p.cmd.Path, p.said.String())
		case <-ctx.Done():
			return fmt.Errorf("%s does not listen on %s: %s", p.cmd.Path, addr, p.said.String())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill()
		<-p.exited
	}
}

// cpu is what the process and its children have used until now, to 10 ms.
func (p *process) cpu() (time.Duration, error) {
	ticks := int64(0)
	pids := []string{strconv.Itoa(p.cmd.Process.Pid)}
	lists, _ := filepath.Glob("/proc/" + pids[0] + "/task/*/children")
	for _, name := range lists {
		list, err := os.ReadFile(name)
		if err != nil {
			return 0, err
		}
		pids = append(pids, strings.Fields(string(list))...)
	}
	for _, pid := range pids {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			return 0, err
		}
		n, err := ticksOf(string(stat))
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond, nil
}

// ticksPerSecond is USER_HZ, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// ticksOf is utime + stime of a line of /proc/PID/stat, fields 14 and 15. A name in parentheses may
// have spaces in it.
func ticksOf(stat string) (int64, error) {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("%q: want a line of /proc/PID/stat", stat)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return user + system, err
}

// A tail keeps the last that a process has said.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text.Write(p)
	if over := t.text.Len() - 4096; over > 0 {
		t.text.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// splitAddr is the network and the address of host:port or unix:/path.
func splitAddr(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// freeAddr is a loopback port that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
