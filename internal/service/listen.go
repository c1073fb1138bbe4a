package service

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"authz/internal/monotonic"
)

// Listen opens host:port or unix:/path, for fasthttp.
func Listen(addr string, mode fs.FileMode, log *slog.Logger) (net.Listener, error) {
	l, err := OpenListener(addr, mode)
	if err != nil {
		return nil, err
	}
	return &retryingListener{Listener: l, log: log}, nil
}

func OpenListener(addr string, mode fs.FileMode) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(addr, "unix:")
	if !isUnix {
		if err := wantHostPort(addr); err != nil {
			return nil, err
		}
		return net.Listen("tcp", addr)
	}
	if path == "" {
		return nil, errors.New("want unix:/path")
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no folder %s, want one that exists", filepath.Dir(path))
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// wantHostPort says what is right, if addr is not even in the form of it.
func wantHostPort(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return errors.New("want host:port, such as 127.0.0.1:7429, or unix:/path")
	}
	return nil
}

// removeStale removes a socket that nobody listens on. Anything else that is there stays.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is no socket, want a free path")
	}
	c, err := net.Dial("unix", path)
	switch {
	case err == nil:
		c.Close()
		return errors.New("another process listens there")
	case errors.Is(err, syscall.ECONNREFUSED): // nobody listens: no other error says so
		return os.Remove(path)
	case errors.Is(err, syscall.EAGAIN):
		return errors.New("another process listens there, and its queue of connections is full")
	}
	return fmt.Errorf("a socket is there, and whether a process listens on it cannot be told: %w", err)
}

// Address is how --listen would write where l listens.
func Address(l net.Listener) string {
	if a := l.Addr(); a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return l.Addr().String()
}

// retryingListener waits out what makes Accept fail for a while, such as too many open files. fasthttp takes it
// for the end.
type retryingListener struct {
	net.Listener
	log    *slog.Logger
	warned monotonic.OncePerMinute
}

func (p *retryingListener) Accept() (net.Conn, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := p.Listener.Accept()
		if err == nil {
			return newConn(c), nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if p.warned.Due() {
			p.log.Warn("no connection can be accepted for now", "error", err.Error())
		}
		time.Sleep(wait)
	}
}

const (
	headersWithin = 3 * time.Second // no body is read
	answerWithin  = 3 * time.Second
	idleFor       = 2 * time.Minute // longer than nginx's own 60 s, so that nginx is the one to close

	// slack is how much earlier a connection may be given up. A deadline costs a lock and a timer of the
	// runtime: it is not set anew for each request.
	slack = time.Second
)

// A conn keeps its times, and may be closed while the client still sends what nobody will read. The
// kernel would then reset it, and the client lose the answer that is on its way.
type conn struct {
	net.Conn
	linger atomic.Bool

	arrived           time.Duration // since the start of the process: when the first bytes of the request under way came
	asked             bool          // something has come
	began             bool          // a request has, and was not answered
	reads, writes     bool          // what is set: a time to read the request under way; any to write
	readSet, writeSet time.Duration
}

func newConn(c net.Conn) *conn { return &conn{Conn: c, began: true} }

// Read gives a request that has begun headersWithin in all, however often it is read, and the wait for
// the next idleFor. A connection on which nothing has come by then ends without a word: a proxy may have
// made it in advance, and would take a refusal for the answer to the request that it sends at last.
func (c *conn) Read(b []byte) (int, error) {
	now := monotonic.Now()
	switch {
	case c.began && !c.reads:
		c.Conn.SetReadDeadline(time.Now().Add(headersWithin))
	case !c.began && (c.reads || now-c.readSet > slack):
		c.Conn.SetReadDeadline(time.Now().Add(idleFor))
		c.readSet = now
	}
	c.reads = c.began
	n, err := c.Conn.Read(b)
	if n > 0 && !(c.asked && c.began) {
		c.arrived = monotonic.Now()
	}
	c.asked, c.began = c.asked || n > 0, c.began || n > 0
	if !c.asked && errors.Is(err, os.ErrDeadlineExceeded) {
		err = io.EOF
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if now := monotonic.Now(); !c.writes || now-c.writeSet > slack {
		c.Conn.SetWriteDeadline(time.Now().Add(answerWithin))
		c.writes, c.writeSet = true, now
	}
	c.began = false
	return c.Conn.Write(b)
}

// Close ends our side first and waits a little for the client to end its own, if linger says so.
func (c *conn) Close() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.linger.Swap(false) {
		half.CloseWrite()
		c.Conn.SetReadDeadline(time.Now().Add(time.Second))
		io.Copy(io.Discard, c.Conn)
	}
	return c.Conn.Close()
}
