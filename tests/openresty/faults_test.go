package openresty

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/internal/store/redisstore"
	"authz/limits"
	"authz/tests/rig"
)

// frontOption is a Redis store of the pack, by name, behind inFrontOf.
func frontOption(name, url, timeout string) string {
	return fmt.Sprintf(`%s = {socket = "%s", timeout = "%s"}`, name, strings.TrimPrefix(url, "unix://"), timeout)
}

// C106: as TestARequestIsNeverSentTwice.
func TestThePackNeverSendsARequestTwice(t *testing.T) {
	rig.IsSentOnce(t, func(r *rig.RedisServer, front string, c limits.Check) string {
		return rig.PackStore{PackStores: rig.StartPackStores(t, r, frontOption("front", front, "2s")), Path: "/redis/front"}.Kind(c)
	})
}

// C108: a Redis that hangs up is dialled once for each request, and so is one that is not there at all.
func TestThePackDialsADeadRedisOnce(t *testing.T) {
	r := rig.StartRedis(t)
	var dials atomic.Int32
	front := rig.InFrontOf(t, r, func(net.Conn, net.Conn) { dials.Add(1) })
	p := rig.StartPackStores(t, r, frontOption("front", front, "10s")+`, nowhere = {port = `+rig.FreePort(t)+`, timeout = "20s"}`)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)
	for n := range 20 {
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/front"}.Kind(c), "network")
		rig.Same(t, fmt.Sprint("dials: ", dials.Load()), fmt.Sprint("dials: ", n+1))
	}
	begun := time.Now()
	for range 20 {
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/nowhere"}.Kind(c), "network")
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("20 requests to a closed port took %v, want none to wait for the timeout", took)
	}
}

// C138: half a reply, and then nothing in time. The connection is closed, so that the other half is
// never taken for the answer to the next request, which gets its own.
func TestAReplyThatComesTooLateIsNobodyElses(t *testing.T) {
	r := rig.StartRedis(t)
	rig.OpenRedis(t, r)
	var connections atomic.Int32
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		first := connections.Add(1) == 1
		rig.OneByOne(client, server, func(_, reply []byte) (more bool) {
			if !first {
				client.Write(reply)
				return true
			}
			half := len(reply) / 2
			client.Write(reply[:half])
			client.Read(make([]byte, 1)) // until the caller gives up
			client.Write(reply[half:])
			return false
		})
	})
	p := rig.StartPackStores(t, r, frontOption("front", front, "1s"))
	s := rig.PackStore{PackStores: p, Path: "/redis/front"}
	none := rig.Check(rig.NewLimit(t, "none", "token_bucket", 1, 366*86400e6, 1), "a", 2)
	some := rig.Check(rig.NewLimit(t, "some", "token_bucket", 5, 366*86400e6, 5), "b", 1)
	rig.Same(t, s.Kind(none), "timeout")
	for range 5 {
		rig.Same(t, s.Kind(some), "admitted")
	}
	rig.Same(t, s.Kind(none)+" "+s.Kind(some), "refused refused")
	// Two workers, and a connection each that is used again.
	if n := connections.Load(); n > 3 {
		t.Errorf("%d connections, want 3 at most: the first was closed, the others were kept", n)
	}
}

// What Redis itself says, by a real one, has the kind that the service gives it. (C111, C114, C117, C118)
func TestThePackKnowsEveryRefusalOfRedis(t *testing.T) {
	r := rig.StartRedis(t, "--busy-reply-threshold", "1")
	options := []string{fmt.Sprintf(`wrong = {socket = "%s", user = "enough", password = "wrong"}`, r.Socket), `nowhere = {socket = "/nowhere.sock"}`,
		fmt.Sprintf(`everybody = {socket = "%s", password = "pass"}`, r.Socket)}
	for _, a := range rig.Accounts {
		options = append(options, fmt.Sprintf(`%s = {socket = "%s", user = "%[1]s", password = "pass", timeout = "10s"}`, a.Name, r.Socket))
	}
	p := rig.StartPackStores(t, r, options...)
	p.MayLog = []string{"unix:/nowhere.sock failed"}
	r.Refuse(t, func(c limits.Check) string { return rig.PackStore{PackStores: p, Path: "/redis"}.Kind(c) })
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	as := func(name, want string) {
		t.Helper()
		rig.Same(t, name+" "+rig.PackStore{PackStores: p, Path: "/redis/" + name}.Kind(c), name+" "+want)
	}
	for _, a := range rig.Accounts {
		as(a.Name, a.Want)
	}
	as("wrong", "noauth")
	as("nowhere", "network")
	bad := rig.Check(rig.NewLimit(t, "bad", "fixed_window", 5, 1e6, 0), "u", 1)
	r.LPush(t.Context(), string(bad.Key), "x")
	rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis"}.Kind(bad, c), "wrongtype")
	r.MustDo(t, "config", "set", "requirepass", "pass")
	as("everybody", "admitted")
}

// C123: database 0 sends no SELECT, no script is loaded, and a connection is greeted once.
func TestThePackSaysNothingThatWasNotAsked(t *testing.T) {
	r := rig.StartRedis(t, "--rename-command", "SCRIPT", "")
	p := rig.StartPackStores(t, r, fmt.Sprintf(`third = {socket = "%s", database = 3, timeout = "10s"}`, r.Socket))
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	for range 20 {
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis"}.Kind(c), "admitted")
	}
	rig.Same(t, fmt.Sprint(r.Calls(t, "eval"), r.Calls(t, "evalsha"), r.Calls(t, "select"), r.Calls(t, "hello")), "1 20 0 1") // the test's own hello
	for range 20 {
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/third"}.Kind(c), "admitted")
	}
	if n := r.Calls(t, "select"); n == 0 || n > 2 {
		t.Errorf("%d SELECT, want one for each worker's connection", n)
	}
}

// C132: two databases and two users by turns: each request lands where it belongs, and a wrong password
// never rides on a connection that was opened with the right one.
func TestConnectionsOfOneUserAndDatabaseAreNobodyElses(t *testing.T) {
	ctx := context.Background()
	r := rig.StartRedis(t)
	for _, user := range []string{"one", "two"} {
		if err := r.Do(ctx, "acl", "setuser", user, "on", ">pass-"+user, "+@all", "~*").Err(); err != nil {
			t.Fatal(err)
		}
	}
	option := func(name, user, password string, database int) string {
		return fmt.Sprintf(`%s = {socket = "%s", user = "%s", password = "%s", database = %d, timeout = "10s"}`, name, r.Socket, user, password, database)
	}
	p := rig.StartPackStores(t, r, option("one", "one", "pass-one", 1), option("two", "two", "pass-two", 2), option("wrong", "one", "pass-two", 1))
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	for range 100 {
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/one"}.Kind(c), "admitted")
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/two"}.Kind(c), "admitted")
		rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/wrong"}.Kind(c), "noauth")
	}
	conn := r.Conn()
	defer conn.Close()
	for database := range 3 {
		conn.Select(ctx, database)
		state := conn.Get(ctx, string(c.Key)).Val()
		want := []string{"", ":100", ":100"}[database]
		if !strings.HasSuffix(state, want) || want == "" && state != "" {
			t.Errorf("database %d holds %q, want it to end with %q", database, state, want)
		}
	}
	if n := r.Calls(t, "auth"); n > 100+4 {
		t.Errorf("%d AUTH, want 100 that failed and one for each connection of 2 workers", n)
	}
}

// C107, C109: a stopped Redis costs the timeout, and works again when it goes on.
func TestTheTimeoutsAreThoseOfTheOptions(t *testing.T) {
	r := rig.StartRedis(t)
	p := rig.StartPackStores(t, r, fmt.Sprintf(`quick = {socket = "%s", timeout = "100ms"}`, r.Socket))
	quick := rig.PackStore{PackStores: p, Path: "/redis/quick"}
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	awaitAdmitted := func() {
		rig.Await(t, "answer in time", func() bool { return quick.Kind(c) == "admitted" }) // a busy machine may time out
	}
	awaitAdmitted()
	r.Signal(t, syscall.SIGSTOP)
	began := time.Now()
	for range 10 {
		rig.Same(t, quick.Kind(c), "timeout")
	}
	if took := time.Since(began); took < time.Second || took > 9*time.Second {
		t.Errorf("10 timeouts of 100 ms took %v", took)
	}
	r.Signal(t, syscall.SIGCONT)
	awaitAdmitted()
}

// C114: the word that tells stands first in Redis 7's errors, and further back in Redis 6's.
func TestBothWordingsOfRedisHaveOneKind(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	for want, reply := range rig.RedisReplies(t) {
		s.Eval(t, fmt.Sprintf("ngx.say(require('resty.authz.kind').reply([==[%s]==]))", reply), want)
	}
}

// The metrics have the kinds of the service, in its order, and a client can cause the same ones. (Of "breaker" the
// breaker itself says whether clients have opened it.)
func TestThePackHasTheKindsOfTheService(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	kinds := []string{}
	for _, m := range regexp.MustCompile(`(?m)^authz_store_errors_total\{kind="(\w+)"\} 0$`).FindAllStringSubmatch(s.Send(t, "GET /metrics", "").Body, -1) {
		kinds = append(kinds, m[1])
	}
	rig.Same(t, strings.Join(kinds, " "), strings.Join(redisstore.Kinds, " "))

	asError := map[string]error{"timeout": context.DeadlineExceeded, "network": io.EOF, "malformed": redis.Nil}
	for kind, reply := range rig.RedisReplies(t) {
		asError[kind] = redisSaid(reply)
	}
	for _, kind := range redisstore.Kinds {
		if kind == "queue" || kind == "breaker" { // errors of the store's own
			s.Eval(t, fmt.Sprintf("ngx.say(require('resty.authz.decision').client_caused(%q))", kind), fmt.Sprint(kind == "queue"))
			continue
		}
		rig.Same(t, redisstore.Kind(asError[kind]), kind)
		s.Eval(t, fmt.Sprintf("ngx.say(require('resty.authz.decision').client_caused(%q))", kind), fmt.Sprint(redisstore.ClientCanCause(asError[kind])))
	}
}

// redisSaid is an error as Redis sends one.
type redisSaid string

func (e redisSaid) Error() string { return string(e) }

func (redisSaid) RedisError() {}

// C121: a nginx or a Redis that is short of what requests use up is not a Redis that is away: a flood
// could bring it about, and would switch off a limit that says "allow".
func TestWhatAFloodUsesUpIsAPool(t *testing.T) {
	s := rig.StartPack(t, nil, "", rig.SiteConf{Limits: noLimits, Server: evalLua})
	for text, want := range map[string]string{
		"connection refused": "network", "no such file or directory": "network", "timeout": "timeout", "no route to host": "network",
		"redis.test could not be resolved (3: Host not found)":  "network",
		"no resolver defined to resolve \"redis.test\"":         "network",
		"failed to do ssl handshake: certificate host mismatch": "network",
		"too many open files":                                   "pool", "resource temporarily unavailable": "pool", "too many waiting connect operations": "pool",
		"file exists": "pool", "operation now in progress": "pool", // worker_connections are not enough
	} {
		s.Eval(t, fmt.Sprintf("ngx.say(require('resty.authz.kind').connecting([==[%s]==]))", text), want)
	}

	path := filepath.Join(rig.SocketDir(t), "full.sock")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	waiting, err := net.Dial("unix", path) // all that it has room for
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	full := rig.StartPack(t, nil, fmt.Sprintf(`redis = {socket = "%s", timeout = "1s"}`, path), rig.SiteConf{Limits: rig.ThreeAnswers, Server: seen})
	full.MayLog = []string{"connect() to unix:"}
	rig.Same(t, full.Send(t, "GET /allow", "").Show("X-Seen"), "200 X-Seen=200,allow,local")
	rig.Same(t, full.Metric(t, `authz_store_errors_total{kind="pool"}`), "1")
}
