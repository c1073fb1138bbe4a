package openresty

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"authz/tests/rig"
)

// An answer that is no Redis's is a failure of Redis like any other: on_error decides, the kind is
// malformed, and the connection is not used again.
func TestWhatIsNoReplyAtAllIsARedisThatCannotAnswer(t *testing.T) {
	r := rig.StartRedis(t)
	var connections atomic.Int32
	var reply atomic.Value
	front := rig.InFrontOf(t, r, func(client, _ net.Conn) {
		connections.Add(1)
		buf := make([]byte, 64<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
			io.WriteString(client, reply.Load().(string))
		}
	})
	s := rig.StartPack(t, nil, frontOption("redis", front, "10s"), rig.SiteConf{Limits: `
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
	s.MayLog = []string{"Redis cannot answer (malformed)"}
	row := func(numbers ...any) string { return fmt.Sprintf("*4\r\n:%d\r\n:%d\r\n:%d\r\n:%d\r\n", numbers...) }
	replies := []string{":\r\n", "*x\r\n", "$x\r\n", "*4\r\n:1\r\n:x\r\n:1\r\n:1\r\n", "*1\r\n$x\r\n", "HTTP/1.1 400\r\n\r\n", "\r\n",
		"*0\r\n", "*-1\r\n", "$-1\r\n", "+OK\r\n",
		// Allowed, remaining, wait and reset are numbers, and none that a script writes.
		row(7, 1, 0, 1), row(-1, 1, 0, 1), row(1, -5, 0, 1), row(0, 0, -2, 1), row(1, 0, 0, -1)}
	for _, text := range replies {
		reply.Store(text)
		before := connections.Load()
		rig.Same(t, fmt.Sprintf("%q %s", text, s.SendAll(t, 1, "GET /open")), fmt.Sprintf("%q 200", text))
		rig.Same(t, fmt.Sprintf("%q %s", text, s.SendAll(t, 1, "GET /closed")), fmt.Sprintf("%q 503", text))
		if n := connections.Load() - before; n != 2 {
			t.Errorf("%q: %d connections for two requests, want 2: none is used again", text, n)
		}
	}
	rig.Same(t, s.Metric(t, `authz_store_errors_total{kind="malformed"}`), fmt.Sprint(2*len(replies)))
}

// The rows of several limits follow a status, and one that is none spoils them all.
func TestARowOfManyThatNoScriptWritesIsNoAnswer(t *testing.T) {
	r := rig.StartRedis(t)
	var reply atomic.Value
	front := rig.InFrontOf(t, r, func(client, _ net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			if _, err := client.Read(buf); err != nil {
				return
			}
			io.WriteString(client, reply.Load().(string))
		}
	})
	const limit = `
		[limit.%s]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		on_error = "deny"`
	s := rig.StartPack(t, nil, frontOption("redis", front, "10s"), rig.SiteConf{Limits: fmt.Sprintf(limit+limit, "one", "two")})
	s.MayLog = []string{"Redis cannot answer (malformed)", "Redis cannot answer (wrongtype)"}
	is := func(numbers, want string) {
		t.Helper()
		reply.Store("*9\r\n:" + strings.ReplaceAll(numbers, " ", "\r\n:") + "\r\n")
		rig.Same(t, numbers+" is "+s.SendAll(t, 1, "GET /"), numbers+" is "+want)
	}
	is("1 1 0 0 1 1 0 0 1", "200")
	is("0 1 0 0 1 0 0 -1 1", "429")
	is("1 1 0 0 1 7 0 0 1", "503")
	is("1 1 -5 0 1 1 0 0 1", "503")
	is("1 1 0 -2 1 1 0 0 1", "503")
	is("1 1 0 0 1 1 0 0 -1", "503")
	is("7 1 0 0 1 1 0 0 1", "503")
	is("0 1 0 0 1 1 0 0 1", "503")
	rig.Same(t, s.Metric(t, `authz_store_errors_total{kind="malformed"}`), "6")
	is("-1 0 0 0 0 0 0 0 0", "503")
	rig.Same(t, s.Metric(t, `authz_store_errors_total{kind="wrongtype"}`), "1")
}

// Neither Redis nor a proxy before it gets a password into nginx's log, or to our caller, by quoting the command
// that has it.
func TestThePackTellsNoSecretThatAServerQuotes(t *testing.T) {
	front := rig.InFrontOf(t, rig.StartRedis(t), func(client, _ net.Conn) {
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				return
			}
			words := strings.Fields(string(buf[:n]))
			fmt.Fprintf(client, "-ERR unknown command '%s', with args beginning with: '%s' \r\n", words[2], strings.Join(words[3:], "' '"))
		}
	})
	for _, user := range []string{"", `user = "s3cr3t", `} {
		options := strings.Replace(frontOption("redis", front, "10s"), "{", "{"+user+`password = "s3cr3t", `, 1)
		s := rig.StartPack(t, nil, options, rig.SiteConf{Limits: `
			[limit.closed]
			key = []
			algorithm = "fixed_window"
			rate = "1/366d"
			on_error = "deny"`, Server: evalLua})
		s.MayLog = []string{"Redis cannot answer (other)"}
		rig.Same(t, s.SendAll(t, 1, "GET /"), "503")
		s.Eval(t, `show(authz.fixed_window("k", {limit = 1, window_us = 1000000}))`, "other: ERR unknown command 'auth'")
		if log := s.Read(t, "error.log"); strings.Contains(log, "s3cr3t") || !strings.Contains(log, "ERR unknown command 'auth'") {
			t.Errorf("the log is\n%s", log)
		}
	}
}
