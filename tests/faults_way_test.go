package tests

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A way leads to a server over TCP, and can be made bad or cut. It is Shopify's toxiproxy.
type way struct {
	port, to string
	server   *toxiproxy.ApiServer
	proxy    *toxiproxy.Proxy
}

func startWay(t testing.TB, to string) *way {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	w := &way{port: freePort(t), to: to, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
	w.open(t)
	t.Cleanup(w.close)
	return w
}

// open takes connections, with what is bad already there. Each is toxiproxy's JSON.
func (w *way) open(t testing.TB, toxics ...string) {
	t.Helper()
	w.proxy = toxiproxy.NewProxy(w.server, "redis", "127.0.0.1:"+w.port, w.to)
	for _, toxic := range toxics {
		w.poison(t, toxic)
	}
	await(t, "free port "+w.port, func() bool {
		err := w.proxy.Start()
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) { // a process that is just starting holds all files of ours
			t.Fatal(err)
		}
		return err == nil
	})
}

// close ends all connections, and refuses new ones.
func (w *way) close() { w.proxy.Stop() }

// poison makes what goes one way bad, on connections that are there too. They must be idle: toxiproxy can
// wait for ever for one that ends meanwhile. (The same happens to who takes a toxic away: open anew.)
func (w *way) poison(t testing.TB, toxic string) {
	t.Helper()
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(toxic, err)
	}
}

// toxic is one of toxiproxy's: "upstream" are requests, "downstream" replies.
func toxic(direction, kind, attributes string) string {
	return fmt.Sprintf(`{"stream": %q, "type": %q, "attributes": {%s}}`, direction, kind, attributes)
}

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
