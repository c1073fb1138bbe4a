package faults

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"authz/tests/rig"
)

// A strander is in front of a server, on a unix socket, and can leave all connections that there are
// half open: nothing comes through them any more, and nobody is told.
type strander struct {
	socket   string
	stranded atomic.Pointer[chan struct{}] // closed for those that were left
}

func startStrander(t *testing.T, r *rig.RedisServer) *strander {
	t.Helper()
	s := &strander{}
	now := make(chan struct{})
	s.stranded.Store(&now)
	url := rig.InFrontOf(t, r, func(client, server net.Conn) {
		stranded := *s.stranded.Load()
		carry := func(to, from net.Conn) {
			buf := make([]byte, 64<<10)
			for {
				n, err := from.Read(buf)
				if err != nil {
					return
				}
				select {
				case <-stranded:
				default:
					to.Write(buf[:n])
				}
			}
		}
		go carry(client, server)
		carry(server, client)
	})
	s.socket = strings.TrimPrefix(url, "unix://")
	return s
}

// strand leaves the connections that there are; those to come work.
func (s *strander) strand() {
	next := make(chan struct{})
	close(*s.stranded.Swap(&next))
}
