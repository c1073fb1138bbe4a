package main

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
	"time"
)

// listen opens host:port or unix:/path.
func listen(addr string, mode fs.FileMode, log *slog.Logger) (net.Listener, error) {
	path, isUnix := strings.CutPrefix(addr, "unix:")
	if !isUnix {
		if err := wantHostPort(addr); err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, err
		}
		return &patient{Listener: l, log: log}, nil
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
	return &patient{Listener: l, log: log}, nil
}

// wantHostPort says what is right, if addr is not even in the form of it.
func wantHostPort(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return errors.New("want host:port, such as 127.0.0.1:7429")
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
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return errors.New("another process listens there")
	}
	return os.Remove(path)
}

// address is how --listen would write where l listens.
func address(l net.Listener) string {
	if a := l.Addr(); a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return l.Addr().String()
}

// patient waits out what makes Accept fail for a while, such as too many open files. fasthttp takes it
// for the end.
type patient struct {
	net.Listener
	log    *slog.Logger
	warned seldom
}

func (p *patient) Accept() (net.Conn, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, time.Second) {
		c, err := p.Listener.Accept()
		if err == nil {
			return &conn{Conn: c}, nil
		}
		if errors.Is(err, net.ErrClosed) {
			return nil, err
		}
		if p.warned.now() {
			p.log.Warn("no connection can be accepted for now", "error", err.Error())
		}
		time.Sleep(wait)
	}
}

// A conn may be closed while the client still sends what nobody will read. The kernel would then
// reset it, and the client lose the answer that is on its way.
//
// Its deadlines are set when they count, and may come early by slack: fasthttp sets three for each
// request, and each costs a lock and a timer of the runtime.
type conn struct {
	net.Conn
	linger      atomic.Bool
	read, write deadline
}

// slack is how much earlier than asked a deadline may come.
const slack = time.Second

// A deadline is asked for much more often than it has to be set.
type deadline struct{ asked, set time.Time }

// due says whether what is set will not do, and takes it as set.
func (d *deadline) due() bool {
	if early := d.asked.Sub(d.set); d.asked.Equal(d.set) || !d.asked.IsZero() && !d.set.IsZero() && 0 <= early && early <= slack {
		return false
	}
	d.set = d.asked
	return true
}

func (c *conn) SetDeadline(t time.Time) error {
	c.read.asked, c.write.asked = t, t
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.read.asked = t
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.write.asked = t
	return nil
}

func (c *conn) Read(b []byte) (int, error) {
	if c.read.due() {
		c.Conn.SetReadDeadline(c.read.asked)
	}
	return c.Conn.Read(b)
}

func (c *conn) Write(b []byte) (int, error) {
	if c.write.due() {
		c.Conn.SetWriteDeadline(c.write.asked)
	}
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
