package tests

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"
)

// C106, for each kind of client: the server has run the script, and then the connection is lost, or no
// reply comes. The request is not sent again, neither there nor to another.
func TestNoClientSendsARequestTwice(t *testing.T) {
	cut := func(want string, timeout time.Duration, afterTake func(client net.Conn)) {
		t.Helper()
		sent := func(name string, r *redisServer, url string) {
			t.Helper()
			c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
			same(t, name+" "+kindOf(openRedisURL(t, url, timeout), c), name+" "+want)
			same(t, fmt.Sprintln(name, r.calls(t, "evalsha"), r.calls(t, "eval"), r.calls(t, "set")), name+" 1 0 1\n")
		}

		r, port := startRedisAt(t)
		openRedis(t, r) // loads the scripts
		sent("single", r, "redis://127.0.0.1:"+cutAfterTake(t, port, afterTake))

		r, port = startRedisAt(t)
		openRedis(t, r)
		sentinels := startSentinels(t, 1, cutAfterTake(t, port, afterTake))
		sent("sentinel", r, sentinelURL(sentinels, ""))

		r, port = startClusterOfOne(t)
		openRedis(t, r)
		r.ConfigSet(context.Background(), "cluster-announce-port", cutAfterTake(t, port, afterTake))
		sent("cluster", r, "redis://127.0.0.1:"+port+"?cluster=true")
	}
	cut("network", 10*time.Second, func(net.Conn) {})
	cut("timeout", time.Second, func(client net.Conn) { client.Read(make([]byte, 1)) }) // until the caller gives up
}

// startRedisAt is startRedis with a port.
func startRedisAt(t testing.TB, args ...string) (r *redisServer, port string) {
	t.Helper()
	port = freePort(t)
	return startRedis(t, append([]string{"--bind", "127.0.0.1", "--port", port}, args...)...), port
}

// cutAfterTake is a port in front of another. What a client sends and is answered is passed on, up to
// the first reply to an EVALSHA: after that the connection is handed to after, and closed.
func cutAfterTake(t *testing.T, port string, after func(client net.Conn)) string {
	t.Helper()
	front := listenFor(t, "tcp", "127.0.0.1:0", func(client net.Conn) {
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
