package rig

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// A Way leads to a server over TCP, and can be made bad or cut. It is Shopify's toxiproxy.
type Way struct {
	Port, to string
	server   *toxiproxy.ApiServer
	proxy    *toxiproxy.Proxy
}

func StartWay(t testing.TB, to string) *Way {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled)
	w := &Way{Port: FreePort(t), to: to, server: toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
	w.Open(t)
	t.Cleanup(w.Close)
	return w
}

// Open takes connections, with what is bad already there. Each is toxiproxy's JSON.
func (w *Way) Open(t testing.TB, toxics ...string) {
	t.Helper()
	w.proxy = toxiproxy.NewProxy(w.server, "redis", "127.0.0.1:"+w.Port, w.to)
	for _, toxic := range toxics {
		w.Poison(t, toxic)
	}
	Await(t, "free port "+w.Port, func() bool {
		err := w.proxy.Start()
		if err != nil && !errors.Is(err, syscall.EADDRINUSE) { // a process that is just starting holds all files of ours
			t.Fatal(err)
		}
		return err == nil
	})
}

// Close ends all connections, and refuses new ones.
func (w *Way) Close() { w.proxy.Stop() }

// Poison makes what goes one way bad, on connections that are there too. They must be idle: toxiproxy can
// wait for ever for one that ends meanwhile. (The same happens to who takes a toxic away: open anew.)
func (w *Way) Poison(t testing.TB, toxic string) {
	t.Helper()
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		t.Fatal(toxic, err)
	}
}

// Toxic is one of toxiproxy's: "upstream" are requests, "downstream" replies.
func Toxic(direction, kind, attributes string) string {
	return fmt.Sprintf(`{"stream": %q, "type": %q, "attributes": {%s}}`, direction, kind, attributes)
}
