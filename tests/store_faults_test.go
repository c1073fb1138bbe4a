package tests

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"authz/limits"
	"authz/redisscripts"
	"authz/store"
)

// What Redis does when it does not answer, and that no request is charged twice for it.

// C106: the server has run the script, and then the connection is lost, or no reply comes. The
// request is not sent again: it is charged once, and nobody is told that it was.
func TestARequestIsNeverSentTwice(t *testing.T) {
	for want, afterTake := range map[string]func(client net.Conn){
		"network": func(net.Conn) {},
		"timeout": func(client net.Conn) { client.Read(make([]byte, 1)) }, // until the caller gives up
	} {
		r := startRedis(t)
		direct := openRedis(t, r)
		front := inFrontOf(t, r, func(client, server net.Conn) {
			passOn(client, server)
			afterTake(client)
		})
		s := openRedisURL(t, front, 2*time.Second)
		c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
		same(t, kindOf(s, c), want)
		same(t, fmt.Sprint(r.calls(t, "evalsha"), " ", left(t, direct, c)), "1 4")
	}
}

// passOn carries requests and replies, one after the other, up to the reply to an EVALSHA.
func passOn(client, server net.Conn) {
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		last := bytes.Contains(buf[:n], []byte("evalsha"))
		server.Write(buf[:n])
		if n, err = server.Read(buf); err != nil || last {
			return
		}
		client.Write(buf[:n])
	}
}

// inFrontOf is the URL of a socket in front of a server. Each connection to it is handed to pass,
// with one to the server, and closed after that.
func inFrontOf(t *testing.T, r *redisServer, pass func(client, server net.Conn)) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "front.sock")
	listenFor(t, "unix", path, func(client net.Conn) {
		server, err := net.Dial("unix", r.socket)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		pass(client, server)
	})
	return "unix://" + path
}

// listenFor hands each connection to serve, and closes it after that. It ends with the test.
func listenFor(t *testing.T, network, addr string, serve func(client net.Conn)) net.Addr {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(func() { l.Close(); serving.Wait() })
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer client.Close()
				serve(client)
			})
		}
	})
	return l.Addr()
}

// left is what a check would still admit.
func left(t *testing.T, s store.Store, c limits.Check) int64 {
	t.Helper()
	results, err := s.Take(context.Background(), 0, []limits.Check{c}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Remaining
}

// C107, C109: a stopped Redis costs its callers the timeout. When it goes on it finds each request
// once at most, and the same store works again.
func TestAStoppedRedisIsATimeoutAndThenWorksAgain(t *testing.T) {
	r := startRedis(t)
	direct := openRedis(t, r)
	s := openRedisURL(t, r.url(), 100*time.Millisecond)
	c := check(newLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	sent := int64(0)
	awaitAdmitted := func() {
		await(t, "answer in time", func() bool { // a busy machine may time out, too
			sent++
			return kindOf(s, c) == "admitted"
		})
	}
	awaitAdmitted()
	r.signal(t, syscall.SIGSTOP)
	for range 10 {
		sent++
		same(t, kindOf(s, c), "timeout")
	}
	r.signal(t, syscall.SIGCONT)
	awaitAdmitted()
	if used := 1000 - left(t, direct, c); used > sent {
		t.Errorf("%d charged, want %d at most: that many were sent", used, sent)
	}
}

// C108: a Redis that hangs up during the greeting is not greeted again.
func TestADeadRedisIsDialledOnce(t *testing.T) {
	r := startRedis(t)
	var dials atomic.Int32
	front := inFrontOf(t, r, func(net.Conn, net.Conn) { dials.Add(1) })
	c := check(newLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)
	same(t, kindOf(openRedisURL(t, front, 10*time.Second), c), "network")
	if n := dials.Load(); n != 1 {
		t.Errorf("dialled %d times, want once", n)
	}
	same(t, kindOf(openRedisURL(t, "unix:///nowhere.sock", 10*time.Second), c), "network")
}

// C121: whoever waits for a connection is told so, and a client may be the cause.
func TestAnExhaustedPoolIsNotATimeoutOfRedis(t *testing.T) {
	r := startRedis(t)
	s := openRedisURL(t, r.url()+"?pool_size=1", time.Second)
	c := check(newLimit(t, "api", "fixed_window", 5000, 366*86400e6, 0), "u", 1)
	same(t, kindOf(s, c), "admitted")
	r.signal(t, syscall.SIGSTOP)
	kinds := make(chan string, 2)
	for range 2 {
		go func() { kinds <- kindOf(s, c) }()
	}
	got := []string{<-kinds, <-kinds}
	r.signal(t, syscall.SIGCONT)
	same(t, fmt.Sprint(got), "[pool timeout]")
	same(t, kindOf(s, c), "admitted")
}

// What Redis itself says, by a real one. (C111, C115, C117, C118)
func TestEveryRefusalOfRedisHasItsKind(t *testing.T) {
	ctx := context.Background()
	r := startRedis(t, "--busy-reply-threshold", "1")
	s := openRedis(t, r)
	set := func(name, value string) {
		t.Helper()
		if err := r.ConfigSet(ctx, name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, algorithm := range algorithms {
		c := check(newLimit(t, algorithm, algorithm, 5, 3600e6, 5), "u", 1)
		is := func(want string) {
			t.Helper()
			same(t, algorithm+" "+kindOf(s, c), algorithm+" "+want)
			if r.Exists(ctx, string(c.Key)).Val() != 0 {
				t.Errorf("%s, %s: the key was written", algorithm, want)
			}
		}
		set("maxmemory", "1")
		is("oom")
		set("maxmemory", "0")
		r.Do(ctx, "replicaof", "127.0.0.1", "1")
		is("readonly")
		r.Do(ctx, "replicaof", "no", "one")
		set("min-replicas-to-write", "1")
		is("other") // NOREPLICAS
		set("min-replicas-to-write", "0")
		same(t, kindOf(s, c), "admitted")
	}

	c := check(newLimit(t, "api", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	looping := make(chan struct{})
	go func() {
		defer close(looping)
		r.Eval(ctx, "while true do end", nil)
	}()
	await(t, "Redis that is busy", func() bool { return strings.HasPrefix(fmt.Sprint(r.Ping(ctx).Err()), "BUSY") })
	same(t, kindOf(s, c), "busy")
	r.ScriptKill(ctx)
	<-looping
	same(t, kindOf(s, c), "admitted")

	asUser := func(name string, rules ...any) store.Redis {
		t.Helper()
		if err := r.Do(ctx, append([]any{"acl", "setuser", name, "on", ">pass"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
		return openRedisURL(t, "unix://"+name+":pass@"+r.socket, 10*time.Second)
	}
	// The least that is needed, without SCRIPT LOAD.
	few := []any{"+evalsha", "+eval", "+time", "+get", "+mget", "+set", "+zadd", "+zcard", "+zcount", "+zrangebyscore",
		"+zrevrangebyscore", "+zremrangebyscore", "+pexpire"}
	same(t, kindOf(asUser("enough", append(few, "~authz:*")...), c), "admitted")
	same(t, kindOf(asUser("keyless", append(few, "~other:*")...), c), "noperm")
	same(t, kindOf(asUser("timeless", append(few, "~authz:*", "-time")...), c), "noperm")
	same(t, kindOf(asUser("scriptless", "~authz:*", "+get", "+set"), c), "noperm")
	same(t, kindOf(openRedisURL(t, "unix://enough:wrong@"+r.socket, 10*time.Second), c), "noauth")
	set("requirepass", "pass")
	same(t, kindOf(openRedisURL(t, r.url(), 10*time.Second), c), "noauth")
	same(t, kindOf(openRedisURL(t, "unix://:pass@"+r.socket, 10*time.Second), c), "admitted")
}

// Load says what is wrong, and Take does without it.
func TestARedisWithoutScriptLoadServes(t *testing.T) {
	r := startRedis(t, "--rename-command", "SCRIPT", "")
	s := openRedisURL(t, r.url(), 10*time.Second)
	if err := s.Load(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "load script take: ERR unknown command") {
		t.Errorf("Load: %v, want an error that names take", err)
	}
	c := check(newLimit(t, "api", "fixed_window", 2, 366*86400e6, 0), "u", 1)
	same(t, kindOf(s, c)+" "+kindOf(s, c)+" "+kindOf(s, c), "admitted admitted refused")
	same(t, fmt.Sprint(r.calls(t, "eval"), r.calls(t, "evalsha")), "1 3")
}

// Database 0 sends no SELECT, and nothing but HELLO is said beside the calls. (C123)
func TestAConnectionSaysNothingThatWasNotAsked(t *testing.T) {
	r := startRedis(t)
	openRedis(t, r) // loads the scripts
	var said bytes.Buffer
	front := inFrontOf(t, r, func(client, server net.Conn) {
		go io.Copy(client, server)
		io.Copy(io.MultiWriter(&said, server), client) // what is answered has been heard
	})
	s := openRedisURL(t, front, 10*time.Second)
	c := check(newLimit(t, "api", "fixed_window", 9, 366*86400e6, 0), "u", 1)
	same(t, kindOf(s, c)+" "+kindOf(s, c), "admitted admitted")
	s.Close()
	ask := strings.Join([]string{"*8", "$7", "evalsha", "$40", redisscripts.Named("fixed_window").SHA, "$1", "1", "$19", string(c.Key),
		"$1", "9", "$14", "31622400000000", "$1", "0", "$1", "1"}, "\r\n")
	same(t, fmt.Sprintf("%q", said.String()), fmt.Sprintf("%q", "*2\r\n$5\r\nhello\r\n$1\r\n2\r\n"+strings.Repeat(ask+"\r\n", 2)))
}
