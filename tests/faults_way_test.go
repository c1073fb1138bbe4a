package tests

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A way leads to a server over TCP, and can be made bad or cut. It is Shopify's toxiproxy.
type way struct{ proxy *toxiproxy.Proxy }

func startWay(t testing.TB, to string) *way {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	w := &way{toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", to)}
	w.open(t)
	t.Cleanup(w.proxy.Stop)
	return w
}

// open takes connections; again, after close, on the same port.
func (w *way) open(t testing.TB) {
	t.Helper()
	if err := w.proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// close refuses new connections and ends those that there are.
func (w *way) close() { w.proxy.Stop() }

func (w *way) port() string {
	_, port, _ := net.SplitHostPort(w.proxy.Listen)
	return port
}

// poison makes what goes one way bad, on all connections and those to come: "upstream" are requests,
// "downstream" replies. kind and attributes are toxiproxy's.
func (w *way) poison(t testing.TB, direction, kind, attributes string) {
	t.Helper()
	text := fmt.Sprintf(`{"stream": %q, "type": %q, "attributes": {%s}}`, direction, kind, attributes)
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(text)); err != nil {
		t.Fatal(text, err)
	}
}

// cure takes all that is bad away.
func (w *way) cure(t testing.TB) { w.proxy.Toxics.ResetToxics(t.Context()) }

// A strander is in front of a server, on a unix socket, and can leave all connections that there are
// half open: nothing comes through them any more, and nobody is told.
type strander struct {
	socket   string
	stranded atomic.Pointer[chan struct{}] // closed for those that were left
}

func startStrander(t *testing.T, r *redisServer) *strander {
	t.Helper()
	s := &strander{}
	now := make(chan struct{})
	s.stranded.Store(&now)
	url := inFrontOf(t, r, func(client, server net.Conn) {
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
