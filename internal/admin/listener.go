package admin

import (
	"net"
	"slices"
	"sync"
)

// mostAdminConns is how many connections the admin listener has open at once: enough for the page, Prometheus and a few
// people, and a small part of the files that checks need.
const mostAdminConns = 64

// A boundedListener has no more than max connections open: a new one takes the place of the oldest, so that clients which
// connect and read nothing keep nobody out.
type boundedListener struct {
	net.Listener
	max int

	mu   sync.Mutex
	open []*boundedConn // the oldest first
}

// A boundedConn leaves the list of its listener when it is closed.
type boundedConn struct {
	net.Conn
	of *boundedListener
}

func (l *boundedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.open) == l.max {
		l.open[0].Conn.Close()
		l.open = slices.Delete(l.open, 0, 1)
	}
	b := &boundedConn{Conn: c, of: l}
	l.open = append(l.open, b)
	return b, nil
}

func (c *boundedConn) Close() error {
	c.of.mu.Lock()
	if at := slices.Index(c.of.open, c); at >= 0 {
		c.of.open = slices.Delete(c.of.open, at, at+1)
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}
