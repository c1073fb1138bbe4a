package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestASocketIsReplacedOnlyIfNobodyListens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	open := func() (net.Listener, string) {
		l, err := listen("unix:"+path, 0o600, slog.Default())
		if err != nil {
			return nil, strings.ReplaceAll(err.Error(), dir, "")
		}
		return l, ""
	}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	whole := path
	path = filepath.Join(dir, "run", "s")
	_, err := open()
	check(err, "there is no folder /run, want one that exists")
	path = whole
	first, err := open()
	check(err, "")
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v, want a socket of mode 0600", info.Mode(), err)
	}
	if got, want := address(first), "unix:"+path; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	_, err = open()
	check(err, "another process listens there")

	// a process that was killed leaves its socket
	first.(*patient).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := open()
	check(err, "")
	second.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after the end: %v, want no socket", err)
	}

	os.WriteFile(path, []byte("precious"), 0o600)
	_, err = open()
	check(err, "there is a file that is no socket, want a free path")
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file now has %q in it", text)
	}
}

func TestAnAddressThatIsNoneIsNamed(t *testing.T) {
	check := func(want string, f serveCmd) {
		t.Helper()
		s := newService(slog.New(slog.DiscardHandler))
		_, err := f.listen(s.log)
		if len(f.Listen) == 0 {
			_, err = f.serveAdmin(s, new(atomic.Bool), nil)
		}
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	check("--listen=foo: want host:port, such as 127.0.0.1:7429", serveCmd{Listen: []string{"foo"}})
	check("--listen=: want host:port, such as 127.0.0.1:7429", serveCmd{Listen: []string{""}})
	check("--listen=::1: want host:port, such as 127.0.0.1:7429", serveCmd{Listen: []string{"::1"}})
	check("--listen=unix:: want unix:/path", serveCmd{Listen: []string{"unix:"}})
	check("--admin=foo: want host:port, such as 127.0.0.1:7429", serveCmd{Admin: "foo"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	check("--listen="+addr+": listen tcp "+addr+": bind: address already in use", serveCmd{Listen: []string{addr}})
	check("--admin="+addr+": listen tcp "+addr+": bind: address already in use", serveCmd{Admin: addr})
}

// crowded is a listener of a process with too many open files.
type crowded struct {
	net.Listener
	fails int
}

func (c *crowded) Accept() (net.Conn, error) {
	if c.fails--; c.fails < 0 {
		return nil, net.ErrClosed
	}
	return nil, syscall.EMFILE
}

func TestTooManyOpenFilesAreWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, err := (&patient{Listener: &crowded{fails: 12}, log: slog.New(slog.DiscardHandler)}).Accept()
		// 1, 2, 4 ... 512 ms, and then a second each
		if took := time.Since(start); err != net.ErrClosed || took != 3023*time.Millisecond {
			t.Errorf("%v after %v, want the end of the listener after 3.023s", err, took)
		}
	})
}

// A deadline is set when it counts, a second early at most, and never late.
func TestADeadlineIsSetWhenItCounts(t *testing.T) {
	var d deadline
	now := time.Now()
	ask := func(in time.Duration, want bool) {
		t.Helper()
		d.asked = now.Add(in)
		if got := d.due(); got != want {
			t.Errorf("%v: to be set %v, want %v", in, got, want)
		}
	}
	if d.due() {
		t.Error("none asked for: to be set, want not")
	}
	ask(3*time.Second, true)
	ask(3*time.Second, false)
	ask(4*time.Second, false)
	ask(4*time.Second+1, true)
	ask(2*time.Minute, true)
	ask(3*time.Second, true) // no later than asked
	if d.asked = (time.Time{}); !d.due() || d.due() {
		t.Error("taken back: want it to be set once")
	}
	ask(3*time.Second, true)
}
