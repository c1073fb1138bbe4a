package rig

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

// IsSentOnce has ask ask once over a front that loses the reply.
func IsSentOnce(t *testing.T, ask func(r *RedisServer, front string, c limits.Check) (kind string)) {
	t.Helper()
	for want, afterTake := range map[string]func(client net.Conn){
		"network": func(net.Conn) {},
		"timeout": func(client net.Conn) { client.Read(make([]byte, 1)) }, // until the caller gives up
	} {
		r := StartRedis(t)
		direct := OpenRedis(t, r) // loads the scripts
		front := InFrontOf(t, r, func(client, server net.Conn) {
			OneByOne(client, server, func(request, reply []byte) (more bool) {
				if bytes.Contains(request, []byte("evalsha")) {
					return false
				}
				client.Write(reply)
				return true
			})
			afterTake(client)
		})
		c := Check(NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
		Same(t, ask(r, front, c), want)
		Same(t, fmt.Sprint(r.Calls(t, "evalsha"), " ", Left(t, direct, c)), "1 4")
	}
}

// OneByOne carries requests, and hands each and its reply to pass, until that wants no more.
func OneByOne(client, server net.Conn, pass func(request, reply []byte) (more bool)) {
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

// InFrontOf is the URL of a socket in front of a server. Each connection to it is handed to pass,
// with one to the server, and closed after that.
func InFrontOf(t *testing.T, r *RedisServer, pass func(client, server net.Conn)) string {
	t.Helper()
	path := filepath.Join(SocketDir(t), "front.sock")
	Between(t, path, r.Socket, pass)
	return "unix://" + path
}

// Between is the same for a socket in front of another.
func Between(t *testing.T, socket, other string, pass func(here, there net.Conn)) {
	t.Helper()
	ListenFor(t, "unix", socket, func(here net.Conn) {
		there, err := net.Dial("unix", other)
		if err != nil {
			t.Error(err)
			return
		}
		defer there.Close()
		pass(here, there)
	})
}

// ListenFor hands each connection to serve, and closes it after that. It ends with the test.
func ListenFor(t *testing.T, network, addr string, serve func(client net.Conn)) net.Addr {
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

// Left is what a check would still admit.
func Left(t *testing.T, s store.Store, c limits.Check) int64 {
	t.Helper()
	results, err := s.Take(context.Background(), 0, []limits.Check{c}, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	return results[0].Remaining
}

// Accounts are users of Redis, what each may do, and what comes of its requests.
var Accounts = []struct{ Name, rules, Want string }{
	{"enough", leastRules + " ~authz:*", "admitted"},
	{"keyless", leastRules + " ~other:*", "noperm"},
	{"timeless", leastRules + " ~authz:* -time", "noperm"},
	{"scriptless", "~authz:* +get +set", "noperm"},
}

// leastRules allow the least that is needed, without SCRIPT LOAD.
const leastRules = "+evalsha +eval +time +get +mget +set +zadd +zcard +zcount +zrangebyscore +zrevrangebyscore +zremrangebyscore +pexpire"

// Refuse has a real Redis refuse requests in turn for all that it may lack, and then makes the accounts.
// Nothing is written meanwhile.
func (r *RedisServer) Refuse(t *testing.T, kindOf func(c limits.Check) string) {
	t.Helper()
	for _, algorithm := range Algorithms {
		c := Check(NewLimit(t, algorithm, algorithm, 5, 3600e6, 5), "u", 1)
		is := func(want string, bad, good []any) {
			t.Helper()
			r.MustDo(t, bad...)
			Same(t, algorithm+" "+kindOf(c), algorithm+" "+want)
			if r.Exists(t.Context(), string(c.Key)).Val() != 0 {
				t.Errorf("%s, %s: the key was written", algorithm, want)
			}
			r.MustDo(t, good...)
			if want == "readonly" { // which holds for a second
				Await(t, "the end of the hold", func() bool { return kindOf(c) == "admitted" })
				r.MustDo(t, "del", string(c.Key))
			}
		}
		is("oom", []any{"config", "set", "maxmemory", "1"}, []any{"config", "set", "maxmemory", "0"})
		is("readonly", []any{"replicaof", "127.0.0.1", "1"}, []any{"replicaof", "no", "one"})
		is("other", []any{"config", "set", "min-replicas-to-write", "1"}, []any{"config", "set", "min-replicas-to-write", "0"}) // NOREPLICAS
		Same(t, kindOf(c), "admitted")
	}
	BeginBusy(t, &Scene{Redis: r})
	c := Check(NewLimit(t, "busy", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	Same(t, kindOf(c), "busy")
	r.MustDo(t, "script", "kill")
	Await(t, "end of the script", func() bool { return r.Ping(t.Context()).Err() == nil })
	Same(t, kindOf(c), "admitted")
	for _, a := range Accounts {
		r.MustDo(t, append([]any{"acl", "setuser", a.Name, "on", ">pass"}, AsAny(strings.Fields(a.rules))...)...)
	}
}
