package service

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

func TestOnErrorAnswersForARedisThatIsStopped(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=1s")
	ask := a.Checker()
	ready := func(want string) {
		t.Helper()
		if status, body := a.Get(t, "/readyz"); status != 200 || body != want {
			t.Errorf("/readyz: %d %q, want 200 %q", status, body, want)
		}
	}
	ready("serving\nstore: redis, answers\n")
	r.StopUnder(t, func(path string) string {
		return ask.Check(t, "GET "+path, []string{"X-Real-IP: 203.0.113.9"}, "X-Authz-Limit", "X-Authz-Degraded", "RateLimit", "Retry-After")
	})
	ready("serving\nstore: redis, no answer: timeout\n")

	r.Signal(t, syscall.SIGCONT)
	rig.Await(t, "answer of the Redis that runs again", func() bool { return ask.Check(t, "GET /deny", nil) == "200" })
	a.Await(t, "the breaker is closed: Redis answers")
	ready("serving\nstore: redis, answers\n")
	if want := "msg=serving limits=4 store=redis redis=" + r.URL() + "\n"; !strings.Contains(a.Logged(), want) {
		t.Errorf("the log has no %s", want)
	}
	if got := a.Metrics(t, `authz_degraded_total{on_error="allow"}`, `authz_degraded_total{on_error="local"}`, "authz_panics"); got !=
		"authz_degraded_total{on_error=\"allow\"} 1\nauthz_degraded_total{on_error=\"local\"} 4\nauthz_panics_total 0\n" {
		t.Errorf("metrics:\n%s", got)
	}
	if got := a.Metrics(t, `authz_store_errors_total{kind="timeout"}`); strings.HasSuffix(got, " 0\n") {
		t.Error("no store error of kind timeout in the metrics")
	}
}

func TestARedisThatComesLater(t *testing.T) {
	dir := rig.SocketDir(t)
	socket := filepath.Join(dir, "redis.sock")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=unix://"+socket)
	ask := a.Checker()
	if !strings.Contains(a.Logged(), `level=WARN msg="Redis is not ready, on_error decides until it is, see authz doctor"`) {
		t.Errorf("the log has no warning about Redis:\n%s", a.Logged())
	}
	if got, want := ask.Check(t, "GET /local", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=local"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r := rig.StartRedis(t)
	if err := os.Symlink(r.Socket, socket); err != nil {
		t.Fatal(err)
	}
	rig.Await(t, "answer of the Redis that came", func() bool { return ask.Check(t, "GET /deny", nil) == "200" })
	if got := len(r.Keys(context.Background(), "authz:v1:*").Val()); got == 0 {
		t.Error("nothing is counted in Redis")
	}
	a.Await(t, `level=INFO msg="Redis is ready"`)
}

// Who has the account that redisscripts/README.md makes is served, and told so.
func TestTheReadmesAccountIsEnoughToServe(t *testing.T) {
	line := regexp.MustCompile(`(?m)^ *user authz .*$`).FindString(rig.Readme(t))
	file := filepath.Join(t.TempDir(), "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Replace(line, ">PASSWORD", ">secret", 1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := rig.StartRedis(t, "--aclfile", file)
	all := ""
	for _, algorithm := range limits.Algorithms {
		all += fmt.Sprintf("[limit.%s]\nkey = [\"ip\"]\nalgorithm = %q\nrate = \"2/d\"\n", algorithm, algorithm)
	}
	all = strings.Replace(all, `"leaky_bucket"`, `"leaky_bucket"`+"\nmode = \"shadow\"", 1) // it is charged, and holds nothing up
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, all), "--redis="+r.URL(), "--redis-timeout=20s", "--refusals-max=0",
		"AUTHZ_REDIS_USER=authz", "AUTHZ_REDIS_PASSWORD=secret")
	for _, want := range []string{"200", "200", "429"} { // the refusal looks for the oldest that has to leave
		if got := a.Checker().Check(t, "GET /all", nil, "X-Authz-Degraded"); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if status, body := a.Get(t, "/readyz"); status != 200 || body != "serving\nstore: redis, answers\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	if strings.Contains(a.Logged(), "level=WARN") {
		t.Error("the log has a warning")
	}
}

// A client that could fill Redis, or its pool, would switch off a limit that says "allow".
func TestAFullRedisOpensNothing(t *testing.T) {
	r := rig.StartRedis(t, "--maxmemory", "1mb", "--maxmemory-policy", "noeviction")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, strings.ReplaceAll(rig.ThreeAnswers, "100/d", "8/d")), "--redis="+r.URL(), "--redis-timeout=20s")
	ctx := context.Background()
	for i := 0; r.Set(ctx, fmt.Sprint("filler", i), strings.Repeat("x", 10_000), 0).Err() == nil; i++ {
	}
	ask := a.Checker()
	var got []string
	for range 3 {
		got = append(got, ask.Check(t, "GET /allow", nil, "X-Authz-Degraded"))
	}
	want := "200 X-Authz-Degraded=local, 200 X-Authz-Degraded=local, 429 X-Authz-Degraded=local"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s: 2 of 8 are the share of one in four", got, want)
	}
	if got := a.Metrics(t, `authz_store_errors_total{kind="oom"}`); got != "authz_store_errors_total{kind=\"oom\"} 3\n" {
		t.Errorf("metrics:\n%swant 3 of kind oom", got)
	}
}

// Clients that leave while Redis does not answer cost a charge each, once, and nothing is left of them.
func TestClientsThatLeaveLeaveNothingBehind(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--redis="+r.URL(), "--redis-timeout=20s", "--limits="+rig.LimitsFile(t, `
		[limit.held]
		key       = []
		algorithm = "leaky_bucket"
		rate      = "1000/s"
		burst     = 400
		[limit.count]
		key       = []
		algorithm = "fixed_window"
		rate      = "10000/366d"`))
	number := func(metric string) (n int) {
		fmt.Sscanf(a.Metrics(t, metric), metric+" %d", &n)
		return n
	}
	a.Checker().Check(t, "GET /a", nil)
	before := number("go_goroutines")
	r.Signal(t, syscall.SIGSTOP)
	const leavers = 300
	var left [leavers]net.Conn
	for i := range left {
		c, err := rig.Dial(a.Addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\n\r\n")
		left[i] = c
	}
	rig.Await(t, "request of each under way", func() bool { return number("authz_held_answers") == leavers })
	for _, c := range left {
		c.(*net.TCPConn).SetLinger(0)
		c.Close()
	}
	r.Signal(t, syscall.SIGCONT)
	rig.Await(t, "end of all holds", func() bool { return number("authz_held_answers") == 0 })
	// The pools of workers and of connections to Redis may keep some.
	rig.Await(t, "end of the goroutines", func() bool { return number("go_goroutines") <= before+20 })
	state := r.Get(context.Background(), "authz:v1:{count}:count:fw").Val()
	if want := fmt.Sprint(":", leavers+1); !strings.HasSuffix(state, want) {
		t.Errorf("%q is charged for %d requests, want %s at its end", state, leavers+1, want)
	}
}
