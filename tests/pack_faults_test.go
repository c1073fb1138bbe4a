package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
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
)

// frontOption is a Redis store of the pack, by name, behind inFrontOf.
func frontOption(name, url, timeout string) string {
	return fmt.Sprintf(`%s = {socket = "%s", timeout = "%s"}`, name, strings.TrimPrefix(url, "unix://"), timeout)
}

// C106: as TestARequestIsNeverSentTwice.
func TestThePackNeverSendsARequestTwice(t *testing.T) {
	isSentOnce(t, func(r *redisServer, front string, c limits.Check) string {
		return packStore{startPackStores(t, r, frontOption("front", front, "2s")), "/redis/front"}.kind(c)
	})
}

// C108: a Redis that hangs up is dialled once for each request, and so is one that is not there at all.
func TestThePackDialsADeadRedisOnce(t *testing.T) {
	r := startRedis(t)
	var dials atomic.Int32
	front := inFrontOf(t, r, func(net.Conn, net.Conn) { dials.Add(1) })
	p := startPackStores(t, r, frontOption("front", front, "10s")+`, nowhere = {port = `+freePort(t)+`, timeout = "20s"}`)
	c := check(newLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)
	for n := range 20 {
		same(t, packStore{p, "/redis/front"}.kind(c), "network")
		same(t, fmt.Sprint("dials: ", dials.Load()), fmt.Sprint("dials: ", n+1))
	}
	begun := time.Now()
	for range 20 {
		same(t, packStore{p, "/redis/nowhere"}.kind(c), "network")
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("20 requests to a closed port took %v, want none to wait for the timeout", took)
	}
}

// C138: half a reply, and then nothing in time. The connection is closed, so that the other half is
// never taken for the answer to the next request, which gets its own.
func TestAReplyThatComesTooLateIsNobodyElses(t *testing.T) {
	r := startRedis(t)
	openRedis(t, r)
	var connections atomic.Int32
	front := inFrontOf(t, r, func(client, server net.Conn) {
		first := connections.Add(1) == 1
		oneByOne(client, server, func(_, reply []byte) (more bool) {
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
	p := startPackStores(t, r, frontOption("front", front, "1s"))
	s := packStore{p, "/redis/front"}
	none := check(newLimit(t, "none", "token_bucket", 1, 366*86400e6, 1), "a", 2)
	some := check(newLimit(t, "some", "token_bucket", 5, 366*86400e6, 5), "b", 1)
	same(t, s.kind(none), "timeout")
	for range 5 {
		same(t, s.kind(some), "admitted")
	}
	same(t, s.kind(none)+" "+s.kind(some), "refused refused")
	// Two workers, and a connection each that is used again.
	if n := connections.Load(); n > 3 {
		t.Errorf("%d connections, want 3 at most: the first was closed, the others were kept", n)
	}
}

// What Redis itself says, by a real one, has the kind that the service gives it. (C111, C114, C117, C118)
func TestThePackKnowsEveryRefusalOfRedis(t *testing.T) {
	r := startRedis(t, "--busy-reply-threshold", "1")
	options := []string{fmt.Sprintf(`wrong = {socket = "%s", user = "enough", password = "wrong"}`, r.socket), `nowhere = {socket = "/nowhere.sock"}`,
		fmt.Sprintf(`everybody = {socket = "%s", password = "pass"}`, r.socket)}
	for _, a := range accounts {
		options = append(options, fmt.Sprintf(`%s = {socket = "%s", user = "%[1]s", password = "pass", timeout = "10s"}`, a.name, r.socket))
	}
	p := startPackStores(t, r, options...)
	p.mayLog = []string{"unix:/nowhere.sock failed"}
	r.refuse(t, func(c limits.Check) string { return packStore{p, "/redis"}.kind(c) })
	c := check(newLimit(t, "api", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	as := func(name, want string) {
		t.Helper()
		same(t, name+" "+packStore{p, "/redis/" + name}.kind(c), name+" "+want)
	}
	for _, a := range accounts {
		as(a.name, a.want)
	}
	as("wrong", "noauth")
	as("nowhere", "network")
	bad := check(newLimit(t, "bad", "fixed_window", 5, 1e6, 0), "u", 1)
	r.LPush(t.Context(), string(bad.Key), "x")
	same(t, packStore{p, "/redis"}.kind(bad, c), "wrongtype")
	r.do(t, "config", "set", "requirepass", "pass")
	as("everybody", "admitted")
}

// C123: database 0 sends no SELECT, no script is loaded, and a connection is greeted once.
func TestThePackSaysNothingThatWasNotAsked(t *testing.T) {
	r := startRedis(t, "--rename-command", "SCRIPT", "")
	p := startPackStores(t, r, fmt.Sprintf(`third = {socket = "%s", database = 3, timeout = "10s"}`, r.socket))
	c := check(newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	for range 20 {
		same(t, packStore{p, "/redis"}.kind(c), "admitted")
	}
	same(t, fmt.Sprint(r.calls(t, "eval"), r.calls(t, "evalsha"), r.calls(t, "select"), r.calls(t, "hello")), "1 20 0 1") // the test's own hello
	for range 20 {
		same(t, packStore{p, "/redis/third"}.kind(c), "admitted")
	}
	if n := r.calls(t, "select"); n == 0 || n > 2 {
		t.Errorf("%d SELECT, want one for each worker's connection", n)
	}
}

// C132: two databases and two users by turns: each request lands where it belongs, and a wrong password
// never rides on a connection that was opened with the right one.
func TestConnectionsOfOneUserAndDatabaseAreNobodyElses(t *testing.T) {
	ctx := context.Background()
	r := startRedis(t)
	for _, user := range []string{"one", "two"} {
		if err := r.Do(ctx, "acl", "setuser", user, "on", ">pass-"+user, "+@all", "~*").Err(); err != nil {
			t.Fatal(err)
		}
	}
	option := func(name, user, password string, database int) string {
		return fmt.Sprintf(`%s = {socket = "%s", user = "%s", password = "%s", database = %d, timeout = "10s"}`, name, r.socket, user, password, database)
	}
	p := startPackStores(t, r, option("one", "one", "pass-one", 1), option("two", "two", "pass-two", 2), option("wrong", "one", "pass-two", 1))
	c := check(newLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	for range 100 {
		same(t, packStore{p, "/redis/one"}.kind(c), "admitted")
		same(t, packStore{p, "/redis/two"}.kind(c), "admitted")
		same(t, packStore{p, "/redis/wrong"}.kind(c), "noauth")
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
	if n := r.calls(t, "auth"); n > 100+4 {
		t.Errorf("%d AUTH, want 100 that failed and one for each connection of 2 workers", n)
	}
}

// C107, C109: a stopped Redis costs the timeout, and works again when it goes on.
func TestTheTimeoutsAreThoseOfTheOptions(t *testing.T) {
	r := startRedis(t)
	p := startPackStores(t, r, fmt.Sprintf(`quick = {socket = "%s", timeout = "100ms"}`, r.socket))
	quick := packStore{p, "/redis/quick"}
	c := check(newLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	awaitAdmitted := func() {
		await(t, "answer in time", func() bool { return quick.kind(c) == "admitted" }) // a busy machine may time out
	}
	awaitAdmitted()
	r.signal(t, syscall.SIGSTOP)
	began := time.Now()
	for range 10 {
		same(t, quick.kind(c), "timeout")
	}
	if took := time.Since(began); took < time.Second || took > 9*time.Second {
		t.Errorf("10 timeouts of 100 ms took %v", took)
	}
	r.signal(t, syscall.SIGCONT)
	awaitAdmitted()
}

// redisReplies are errors of Redis and the kind of each, from vectors/kind. The service is asked in
// internal/store/redisstore/kind_test.go.
func redisReplies(t *testing.T) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile("vectors/kind/replies.txt")
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(kind, reply string) bool) {
		for line := range strings.Lines(string(text)) {
			if kind, reply, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); !yield(kind, reply) {
				return
			}
		}
	}
}

// C114: the word that tells stands first in Redis 7's errors, and further back in Redis 6's.
func TestBothWordingsOfRedisHaveOneKind(t *testing.T) {
	s := startPack(t, nil, "", siteConf{limits: noLimits, server: evalLua})
	for want, reply := range redisReplies(t) {
		s.eval(t, fmt.Sprintf("ngx.say(require('resty.authz.kind').reply([==[%s]==]))", reply), want)
	}
}

// The metrics have the kinds of the service, in its order, and a client can cause the same ones. (Of "breaker" the
// breaker itself says whether clients have opened it.)
func TestThePackHasTheKindsOfTheService(t *testing.T) {
	s := startPack(t, nil, "", siteConf{limits: noLimits, server: evalLua})
	kinds := []string{}
	for _, m := range regexp.MustCompile(`(?m)^authz_store_errors_total\{kind="(\w+)"\} 0$`).FindAllStringSubmatch(s.send(t, "GET /metrics", "").body, -1) {
		kinds = append(kinds, m[1])
	}
	same(t, strings.Join(kinds, " "), strings.Join(redisstore.Kinds, " "))

	asError := map[string]error{"timeout": context.DeadlineExceeded, "network": io.EOF, "malformed": redis.Nil}
	for kind, reply := range redisReplies(t) {
		asError[kind] = redisSaid(reply)
	}
	for _, kind := range redisstore.Kinds {
		if kind == "queue" || kind == "breaker" { // errors of the store's own
			s.eval(t, fmt.Sprintf("ngx.say(require('resty.authz.decision').client_caused(%q))", kind), fmt.Sprint(kind == "queue"))
			continue
		}
		same(t, redisstore.Kind(asError[kind]), kind)
		s.eval(t, fmt.Sprintf("ngx.say(require('resty.authz.decision').client_caused(%q))", kind), fmt.Sprint(redisstore.ClientCanCause(asError[kind])))
	}
}

// redisSaid is an error as Redis sends one.
type redisSaid string

func (e redisSaid) Error() string { return string(e) }

func (redisSaid) RedisError() {}

// C121: a nginx or a Redis that is short of what requests use up is not a Redis that is away: a flood
// could bring it about, and would switch off a limit that says "allow".
func TestWhatAFloodUsesUpIsAPool(t *testing.T) {
	s := startPack(t, nil, "", siteConf{limits: noLimits, server: evalLua})
	for text, want := range map[string]string{
		"connection refused": "network", "no such file or directory": "network", "timeout": "timeout", "no route to host": "network",
		"redis.test could not be resolved (3: Host not found)":  "network",
		"no resolver defined to resolve \"redis.test\"":         "network",
		"failed to do ssl handshake: certificate host mismatch": "network",
		"too many open files":                                   "pool", "resource temporarily unavailable": "pool", "too many waiting connect operations": "pool",
		"file exists": "pool", "operation now in progress": "pool", // worker_connections are not enough
	} {
		s.eval(t, fmt.Sprintf("ngx.say(require('resty.authz.kind').connecting([==[%s]==]))", text), want)
	}

	path := filepath.Join(socketDir(t), "full.sock")
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
	full := startPack(t, nil, fmt.Sprintf(`redis = {socket = "%s", timeout = "1s"}`, path), siteConf{limits: threeAnswers, server: seen})
	full.mayLog = []string{"connect() to unix:"}
	same(t, full.send(t, "GET /allow", "").show("X-Seen"), "200 X-Seen=200,allow,local")
	same(t, full.metric(t, `authz_store_errors_total{kind="pool"}`), "1")
}
