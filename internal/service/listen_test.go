package service

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestASocketIsReplacedOnlyIfNobodyListens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	open := func() (net.Listener, string) {
		l, err := Listen("unix:"+path, 0o600, slog.Default())
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
	if got, want := Address(first), "unix:"+path; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	_, err = open()
	check(err, "another process listens there")

	// a process that was killed leaves its socket
	first.(*retryingListener).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
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
		_, err := (&retryingListener{Listener: &crowded{fails: 12}, log: slog.New(slog.DiscardHandler)}).Accept()
		// 1, 2, 4 ... 512 ms, and then a second each
		if took := time.Since(start); err != net.ErrClosed || took != 3023*time.Millisecond {
			t.Errorf("%v after %v, want the end of the listener after 3.023s", err, took)
		}
	})
}

// timed is one end of a connection that says which deadlines are set, in seconds from now.
type timed struct {
	net.Conn
	reads, writes []string
}

func inSeconds(t time.Time) string { return time.Until(t).Round(time.Second).String() }

func (c *timed) SetReadDeadline(t time.Time) error {
	c.reads = append(c.reads, inSeconds(t))
	return nil
}

func (c *timed) SetWriteDeadline(t time.Time) error {
	c.writes = append(c.writes, inSeconds(t))
	return nil
}

// A request has its time as a whole, however slowly it comes; who is idle has more. What need not be set
// again is not.
func TestAConnectionIsGivenItsTime(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	said := &timed{Conn: near}
	c := newConn(said)
	read := func(want string) {
		t.Helper()
		go far.Write([]byte("x"))
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(said.reads, " "); got != want {
			t.Errorf("read deadlines %q, want %q", got, want)
		}
	}
	write := func(want string) {
		t.Helper()
		go far.Read(make([]byte, 1))
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(said.writes, " "); got != want {
			t.Errorf("write deadlines %q, want %q", got, want)
		}
	}
	read("3s") // from the first byte of the connection on
	read("3s")
	write("3s")
	read("3s 2m0s")
	write("3s")
	read("3s 2m0s") // a request that comes at once and whole needs nothing new
	read("3s 2m0s 3s")
	read("3s 2m0s 3s")
	write("3s")
	read("3s 2m0s 3s 2m0s")
	c.readSet -= 2 * slack
	c.writeSet -= 2 * slack
	write("3s 3s")
	read("3s 2m0s 3s 2m0s 2m0s")
}
