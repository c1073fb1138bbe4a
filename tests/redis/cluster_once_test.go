package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"authz/tests/rig"
)

// C106, for each kind of client: the server has run the script, and then the connection is lost, or no
// reply comes. The request is not sent again, neither there nor to another.
func TestNoClientSendsARequestTwice(t *testing.T) {
	cut := func(want string, timeout time.Duration, afterTake func(client net.Conn)) {
		t.Helper()
		sent := func(name string, r *rig.RedisServer, url string) {
			t.Helper()
			c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
			rig.Same(t, name+" "+rig.KindOf(rig.OpenRedisURL(t, url, timeout), c), name+" "+want)
			rig.Same(t, fmt.Sprintln(name, r.Calls(t, "evalsha"), r.Calls(t, "eval"), r.Calls(t, "set")), name+" 1 0 1\n")
		}

		r, port := startRedisAt(t)
		rig.OpenRedis(t, r) // loads the scripts
		sent("single", r, "redis://127.0.0.1:"+cutAfterTake(t, port, afterTake))

		r, port = startRedisAt(t)
		rig.OpenRedis(t, r)
		sentinels := rig.StartSentinels(t, 1, cutAfterTake(t, port, afterTake))
		sent("sentinel", r, sentinelURL(sentinels, ""))

		r, port = startClusterOfOne(t)
		rig.OpenRedis(t, r)
		r.ConfigSet(context.Background(), "cluster-announce-port", cutAfterTake(t, port, afterTake))
		sent("cluster", r, "redis://127.0.0.1:"+port+"?cluster=true")
	}
	cut("network", 10*time.Second, func(net.Conn) {})
	cut("timeout", time.Second, func(client net.Conn) { client.Read(make([]byte, 1)) }) // until the caller gives up
}

// startRedisAt is startRedis with a port.
func startRedisAt(t testing.TB, args ...string) (r *rig.RedisServer, port string) {
	t.Helper()
	port = rig.FreePort(t)
	return rig.StartRedis(t, append([]string{"--bind", "127.0.0.1", "--port", port}, args...)...), port
}

// cutAfterTake is a port in front of another. What a client sends and is answered is passed on, up to
// the first reply to an EVALSHA: after that the connection is handed to after, and closed.
func cutAfterTake(t *testing.T, port string, after func(client net.Conn)) string {
	t.Helper()
	front := rig.ListenFor(t, "tcp", "127.0.0.1:0", func(client net.Conn) {
		server, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			return
		}
		defer server.Close()
		passUntilTake(client, server, after)
	})
	return fmt.Sprint(front.(*net.TCPAddr).Port)
}

func passUntilTake(client, server net.Conn, after func(net.Conn)) {
	taken := make(chan struct{}) // closed when the client has sent it
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := client.Read(buf)
			if err != nil {
				server.Close()
				return
			}
			if bytes.Contains(buf[:n], []byte("evalsha")) {
				close(taken)
				server.Write(buf[:n])
				return
			}
			server.Write(buf[:n])
		}
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		select {
		case <-taken:
			after(client)
			return
		default:
		}
		if err != nil {
			return
		}
		client.Write(buf[:n])
	}
}
