package tests

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// An answer that is no Redis's is a failure of Redis like any other: on_error decides, the kind is
// malformed, and the connection is not used again.
func TestWhatIsNoReplyAtAllIsARedisThatCannotAnswer(t *testing.T) {
	r := startRedis(t)
	var connections atomic.Int32
	var reply atomic.Value
	front := inFrontOf(t, r, func(client, _ net.Conn) {
		connections.Add(1)
		buf := make([]byte, 64<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
			io.WriteString(client, reply.Load().(string))
		}
	})
	s := startPack(t, nil, frontOption("redis", front, "10s"), siteConf{limits: `
		[limit.open]
		match = { path = "/open" }
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		on_error = "allow"
		[limit.closed]
		match = { path = "/closed" }
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		on_error = "deny"`})
	s.mayLog = []string{"Redis cannot answer (malformed)"}
	replies := []string{":\r\n", "*x\r\n", "$x\r\n", "*4\r\n:1\r\n:x\r\n:1\r\n:1\r\n", "*1\r\n$x\r\n", "HTTP/1.1 400\r\n\r\n", "\r\n",
		"*0\r\n", "*-1\r\n", "$-1\r\n", "+OK\r\n"}
	for _, text := range replies {
		reply.Store(text)
		before := connections.Load()
		same(t, fmt.Sprintf("%q %s", text, s.sendAll(t, 1, "GET /open")), fmt.Sprintf("%q 200", text))
		same(t, fmt.Sprintf("%q %s", text, s.sendAll(t, 1, "GET /closed")), fmt.Sprintf("%q 503", text))
		if n := connections.Load() - before; n != 2 {
			t.Errorf("%q: %d connections for two requests, want 2: none is used again", text, n)
		}
	}
	same(t, s.metric(t, `authz_store_errors_total{kind="malformed"}`), fmt.Sprint(2*len(replies)))
}
