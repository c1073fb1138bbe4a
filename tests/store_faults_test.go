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

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
)

// What Redis does when it does not answer, and that no request is charged twice for it.

// C106: the server has run the script, and then the connection is lost, or no reply comes. The
// request is not sent again: it is charged once, and nobody is told that it was.
func TestARequestIsNeverSentTwice(t *testing.T) {
	isSentOnce(t, func(_ *redisServer, front string, c limits.Check) string {
		return kindOf(openRedisURL(t, front, 2*time.Second), c)
	})
}

// isSentOnce has ask ask once over a front that loses the reply.
func isSentOnce(t *testing.T, ask func(r *redisServer, front string, c limits.Check) (kind string)) {
	t.Helper()
	for want, afterTake := range map[string]func(client net.Conn){
		"network": func(net.Conn) {},
		"timeout": func(client net.Conn) { client.Read(make([]byte, 1)) }, // until the caller gives up
	} {
		r := startRedis(t)
		direct := openRedis(t, r) // loads the scripts
		front := inFrontOf(t, r, func(client, server net.Conn) {
			oneByOne(client, server, func(request, reply []byte) (more bool) {
				if bytes.Contains(request, []byte("evalsha")) {
					return false
				}
				client.Write(reply)
				return true
			})
			afterTake(client)
		})
		c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
		same(t, ask(r, front, c), want)
		same(t, fmt.Sprint(r.calls(t, "evalsha"), " ", left(t, direct, c)), "1 4")
	}
}

// oneByOne carries requests, and hands each and its reply to pass, until that wants no more.
func oneByOne(client, server net.Conn, pass func(request, reply []byte) (more bool)) {
	request, reply := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, err := client.Read(request)
		if err != nil {
			return
		}
		server.Write(request[:n])
		if m, err := server.Read(reply); err != nil || !pass(request[:n], reply[:m]) {
			return
		}
	}
}

// inFrontOf is the URL of a socket in front of a server. Each connection to it is handed to pass,
// with one to the server, and closed after that.
func inFrontOf(t *testing.T, r *redisServer, pass func(client, server net.Conn)) string {
	t.Helper()
	path := filepath.Join(socketDir(t), "front.sock")
	between(t, path, r.socket, pass)
	return "unix://" + path
}

// between is the same for a socket in front of another.
func between(t *testing.T, socket, other string, pass func(here, there net.Conn)) {
	t.Helper()
	listenFor(t, "unix", socket, func(here net.Conn) {
		there, err := net.Dial("unix", other)
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		pass(here, there)
	})
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

// accounts are users of Redis, what each may do, and what comes of its requests.
var accounts = []struct{ name, rules, want string }{
	{"enough", leastRules + " ~authz:*", "admitted"},
	{"keyless", leastRules + " ~other:*", "noperm"},
	{"timeless", leastRules + " ~authz:* -time", "noperm"},
	{"scriptless", "~authz:* +get +set", "noperm"},
}

// leastRules allow the least that is needed, without SCRIPT LOAD.
const leastRules = "+evalsha +eval +time +get +mget +set +zadd +zcard +zcount +zrangebyscore +zrevrangebyscore +zremrangebyscore +pexpire"

// refuse has a real Redis refuse requests in turn for all that it may lack, and then makes the accounts.
// Nothing is written meanwhile.
func (r *redisServer) refuse(t *testing.T, kindOf func(c limits.Check) string) {
	t.Helper()
	for _, algorithm := range algorithms {
		c := check(newLimit(t, algorithm, algorithm, 5, 3600e6, 5), "u", 1)
		is := func(want string, bad, good []any) {
			t.Helper()
			r.do(t, bad...)
			same(t, algorithm+" "+kindOf(c), algorithm+" "+want)
			if r.Exists(t.Context(), string(c.Key)).Val() != 0 {
				t.Errorf("%s, %s: the key was written", algorithm, want)
			}
			r.do(t, good...)
			if want == "readonly" { // which holds for a second
				await(t, "the end of the hold", func() bool { return kindOf(c) == "admitted" })
				r.do(t, "del", string(c.Key))
			}
		}
		is("oom", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"})
		is("readonly", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"})
		is("other", []any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}) // NOREPLICAS
		same(t, kindOf(c), "admitted")
	}
	beginBusy(t, &scene{redis: r})
	c := check(newLimit(t, "busy", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	same(t, kindOf(c), "busy")
	r.do(t, "script", "kill")
	await(t, "end of the script", func() bool { return r.Ping(t.Context()).Err() == nil })
	same(t, kindOf(c), "admitted")
	for _, a := range accounts {
		r.do(t, append([]any{"acl", "setuser", a.name, "on", ">pass"}, asAny(strings.Fields(a.rules))...)...)
	}
}

// What Redis itself says, by a real one. (C111, C115, C117, C118)
func TestEveryRefusalOfRedisHasItsKind(t *testing.T) {
	r := startRedis(t, "--busy-reply-threshold", "1")
	s := openRedis(t, r)
	r.refuse(t, func(c limits.Check) string { return kindOf(s, c) })
	c := check(newLimit(t, "api", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	as := func(user, password string) string {
		return kindOf(openRedisURL(t, "unix://"+user+":"+password+"@"+r.socket, 10*time.Second), c)
	}
	for _, a := range accounts {
		same(t, a.name+" "+as(a.name, "pass"), a.name+" "+a.want)
	}
	same(t, as("enough", "wrong"), "noauth")
	r.do(t, "config", "set", "requirepass", "pass")
	same(t, kindOf(openRedisURL(t, r.url(), 10*time.Second), c), "noauth")
	same(t, as("", "pass"), "admitted")
}

// Load says what is wrong, and Take does without it.
func TestARedisWithoutScriptLoadServes(t *testing.T) {
	r := startRedis(t, "--rename-command", "SCRIPT", "")
	s := openRedisURL(t, r.url(), 10*time.Second)
	if err := s.Load(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "load script sliding_counter: ERR unknown command") {
		t.Errorf("Load: %v, want an error that names a script", err)
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
