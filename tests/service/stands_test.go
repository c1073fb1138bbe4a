package service

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// Clients of the admin listener that ask and never read cost the checks nothing, and keep nobody else out of /metrics: their
// number is bounded, and they are closed within seconds.
func TestSlowReadersOfTheAdminListenerStarveNobody(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Limit("a", "fixed_window", "100000/d")))
	files := func() int {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(open)
	}
	before := files()
	for range 300 {
		c, err := rig.Dial(a.Admin)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.(*net.TCPConn).SetReadBuffer(4096)
		c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
		io.WriteString(c, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 200)) // as much as goes
	}
	rig.Same(t, a.Checker().Check(t, "GET /a", nil), "200")
	if status, body := a.Get(t, "/metrics"); status != 200 || !strings.Contains(body, "authz_requests_total") {
		t.Errorf("/metrics beside slow readers: %d, want 200", status)
	}
	if n := files() - before; n > 64+8 {
		t.Errorf("%d more files open, want 64 connections at most", n)
	}
	rig.Await(t, "the end of slow readers", func() bool { return files() <= before+8 })
}

// Nothing of the admin listener is served for a name that somebody's DNS has pointed at this machine.
func TestTheAdminListenerAnswersToItsOwnNameAlone(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Limit("a", "fixed_window", "1/d")))
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/", "/top"} {
		for host, want := range map[string]int{"localhost": 200, "127.0.0.1": 200, "evil.example": 403} {
			req, err := http.NewRequest("GET", "http://"+a.Admin+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s for Host: %s: %d, want %d", path, host, resp.StatusCode, want)
			}
		}
	}
}

// A log whose reader has gone does not end the process: it goes on answering, and counts what it could not say.
func TestALogThatClosesDoesNotEndTheProcess(t *testing.T) {
	log, stderr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	serve := exec.Command(rig.AuthzBinary(t), "serve", "--limits="+rig.LimitsFile(t, rig.Limit("a", "fixed_window", "1/d")), "--listen=127.0.0.1:0", "--admin=127.0.0.1:0")
	serve.Stdout, serve.Stderr = stderr, stderr
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		serve.Process.Signal(syscall.SIGTERM)
		if err := serve.Wait(); err != nil {
			t.Errorf("authz ended with %v, want 0", err)
		}
	}()
	stderr.Close()
	addrs, lines := map[string]string{}, bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=serving") {
		if _, rest, ok := strings.Cut(lines.Text(), "msg=listening for="); ok {
			what, addr, _ := strings.Cut(rest, " addr=")
			addrs[what] = addr
		}
	}
	log.Close()
	ask := rig.NewChecker(addrs["checks"])
	for i, want := range []string{"200", "429", "429"} {
		if got := ask.Check(t, "GET /a", nil); got != want {
			t.Errorf("request %d after the log was closed: %s, want %s", i+1, got, want)
		}
	}
	rig.Await(t, "lines that were lost", func() bool {
		resp, err := http.Get("http://" + addrs["admin"] + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return !strings.Contains(string(text), "authz_log_lines_lost_total 0\n")
	})
}

// A socket on which a process listens is not taken from it, also while its queue of connections is full.
func TestALiveSocketIsNotTaken(t *testing.T) {
	socket, file := filepath.Join(rig.SocketDir(t), "authz.sock"), rig.LimitsFile(t, rig.Limit("a", "fixed_window", "1/d"))
	a := rig.StartAuthz(t, "--limits="+file, "--listen=unix:"+socket)
	inode := func() uint64 {
		info, err := os.Stat(socket)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	before := inode()
	a.Signal(t, syscall.SIGSTOP)
	var waiting []int
	defer func() {
		for _, fd := range waiting {
			syscall.Close(fd)
		}
	}()
	for {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		waiting = append(waiting, fd)
		if err := syscall.Connect(fd, &syscall.SockaddrUnix{Name: socket}); err == syscall.EAGAIN {
			break
		} else if err != nil || len(waiting) > 50_000 {
			t.Fatalf("%d connections wait: %v, want a full queue", len(waiting), err)
		}
	}
	code, printed := rig.Authz(t, "serve", "--limits="+file, "--listen=unix:"+socket, "--admin=")
	a.Signal(t, syscall.SIGCONT)
	if want := "another process listens there, and its queue of connections is full"; code != 1 || !strings.Contains(printed, want) {
		t.Errorf("exit %d: %s\nwant %s", code, printed, want)
	}
	if after := inode(); after != before {
		t.Error("the socket was replaced")
	}
}
