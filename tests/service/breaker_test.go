package service

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// C108, C109: after three failures nobody waits for Redis: the answers are those of each on_error. When
// it is back, it decides again, and has not heard of what was asked meanwhile.
func TestABreakerAnswersForARedisThatIsAway(t *testing.T) {
	absent := func(kind string, leave, comeBack func(*rig.RedisServer)) {
		r := rig.StartRedis(t)
		// 3 of 12 are the share of one in four.
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=500ms")
		ask := a.Checker()
		check := func(path, want string) {
			t.Helper()
			got := ask.Check(t, "GET "+path, []string{"X-Real-IP: 203.0.113.9"}, "X-Authz-Degraded", "RateLimit", "Retry-After")
			if got, _, _ = strings.Cut(got, ";t="); got != want {
				t.Errorf("%s, %s: got  %s\nwant %s", kind, path, got, want)
			}
		}
		a.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
		check("/local", `200 RateLimit="local";r=11`)
		leave(r)
		check("/local", `200 X-Authz-Degraded=local RateLimit="local";r=2`)
		check("/local", `200 X-Authz-Degraded=local RateLimit="local";r=1`)
		a.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
		check("/local", `200 X-Authz-Degraded=local RateLimit="local";r=0`)
		a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 0 state{state="open"} 1`)
		for range 100 { // which would take 150 seconds if they asked a Redis that hangs
			check("/local", `429 X-Authz-Degraded=local RateLimit="local";r=0`)
			check("/deny", `503 X-Authz-Degraded=deny Retry-After=1`)
			check("/all", `503 X-Authz-Degraded=deny Retry-After=1`)
		}
		check("/allow", `200 X-Authz-Degraded=allow`)
		status, body := a.Get(t, "/readyz")
		rig.Same(t, fmt.Sprint(status, " ", body), "200 serving\nstore: redis, no answer: "+kind+"\n")
		rig.Same(t, a.Metrics(t, `authz_store_errors_total{kind="`+kind, `authz_store_errors_total{kind="breaker`),
			"authz_store_errors_total{kind=\"breaker\"} 301\nauthz_store_errors_total{kind=\""+kind+"\"} 3\n")

		comeBack(r)
		a.Await(t, "the breaker is closed: Redis answers")
		check("/deny", `200 RateLimit="deny";r=99`)
		a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 1 state{state="open"} 0`)
		for line, want := range map[string]int{"the breaker is open": 1, "the breaker is closed": 1, "kind=" + kind + " error=": 2, "kind=breaker": 0} {
			if got := strings.Count(a.Logged(), line); got != want {
				t.Errorf("%s: %d lines with %q, want %d", kind, got, line, want)
			}
		}
	}
	absent("timeout", func(r *rig.RedisServer) { r.Signal(t, syscall.SIGSTOP) }, func(r *rig.RedisServer) { r.Signal(t, syscall.SIGCONT) })
	absent("network", func(r *rig.RedisServer) {
		r.Cmd.Process.Kill()
		<-r.Exited
	}, func(r *rig.RedisServer) {
		if err := os.Remove(r.Socket); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(rig.StartRedis(t).Socket, r.Socket); err != nil {
			t.Fatal(err)
		}
	})
}

// While the breaker is open Redis sees probes, and nobody's request.
func TestProbesAreNobodysRequests(t *testing.T) {
	r := rig.StartRedis(t)
	var away atomic.Bool
	var probes, requests atomic.Int64
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--refusals-max=0", "--redis="+rig.InFrontOf(t, r, func(client, server net.Conn) {
		answering(client, server, func(command []byte) string {
			switch {
			case !away.Load():
				return ""
			case bytes.Contains(command, []byte("authz:v1:")):
				requests.Add(1)
			default:
				probes.Add(1)
			}
			return "hang up"
		})
	}), "--redis-timeout=20s")
	ask := a.Checker()
	rig.Same(t, ask.Check(t, "GET /deny", nil), "200")
	away.Store(true)
	for range 3 {
		rig.Same(t, ask.Check(t, "GET /deny", nil), "503")
	}
	probes.Store(0)
	for probes.Load() < 5 {
		rig.Same(t, ask.Check(t, "GET /deny", nil), "503")
	}
	rig.Same(t, fmt.Sprint(requests.Load()), "3")
	away.Store(false)
	a.Await(t, "the breaker is closed: Redis answers")
	rig.Same(t, ask.Check(t, "GET /deny", nil), "200")
}

// answering passes commands and replies on, but for an EVALSHA or EVAL that reply has an answer to: an
// array, an error, or that the connection ends.
func answering(client, server net.Conn, reply func(command []byte) string) {
	go io.Copy(client, server)
	for from := bufio.NewReader(client); ; {
		command, err := rig.WholeCommand(from)
		if err != nil {
			return
		}
		text := ""
		if bytes.Contains(command, []byte("\r\neval")) {
			text = reply(command)
		}
		switch {
		case text == "":
			server.Write(command)
		case text == "hang up":
			return
		case text[0] == '*':
			fmt.Fprintf(client, "%s\r\n", text)
		default:
			fmt.Fprintf(client, "-%s\r\n", text)
		}
	}
}

// Failures that clients can cause open nothing: neither a limit that says "allow", nor by way of the breaker.
func TestABreakerThatClientsMayHaveOpenedOpensNothing(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL()+"?pool_size=1", "--redis-timeout=1s")
	ask := a.Checker()
	rig.Same(t, ask.Check(t, "GET /allow", nil), "200")
	r.Signal(t, syscall.SIGSTOP)
	done := make(chan string, 2)
	for range 2 { // two lanes, and one connection
		go func() {
			text, err := a.Checker().Try("GET /local", nil)
			done <- fmt.Sprint(text, err)
		}()
	}
	rig.Same(t, <-done+" "+<-done, "200<nil> 200<nil>")
	for a.Metrics(t, `authz_breaker_state{state="open"}`) == "authz_breaker_state{state=\"open\"} 0\n" {
		ask.Check(t, "GET /deny", nil)
	}
	rig.Same(t, ask.Check(t, "GET /allow", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=local")
	if got := a.Metrics(t, `authz_store_errors_total{kind="pool"}`); strings.HasSuffix(got, " 0\n") {
		t.Errorf("metrics: %swant some, by which it is known that clients may be the cause", got)
	}
	r.Signal(t, syscall.SIGCONT)
}

// However many ask at once, a Redis that falls silent is not their doing: "allow" is what it says.
func TestACrowdDoesNotMakeASilentRedisItsOwnDoing(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, `
		[limit.allow]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1000000000/d"
		on_error  = "allow"
	`), "--redis="+r.URL(), "--redis-timeout=1s")
	var answered, degraded atomic.Int64
	var end atomic.Bool
	done := make(chan string)
	const crowd = 50
	for range crowd {
		ask := a.Checker()
		go func() {
			wrong := ""
			for !end.Load() {
				text, err := ask.Try("GET /allow", nil, "X-Authz-Degraded")
				if answered.Add(1); strings.Contains(text, "Degraded") {
					degraded.Add(1)
				}
				if err != nil || !strings.HasPrefix(text, "200") {
					wrong = fmt.Sprint(text, err)
				}
			}
			done <- wrong
		}()
	}
	rig.Await(t, "load", func() bool { return answered.Load() > 20*crowd })
	rig.Same(t, fmt.Sprint(degraded.Load()), "0")
	r.Signal(t, syscall.SIGSTOP)
	a.Await(t, "the breaker is open")
	ask := a.Checker()
	for range 10 {
		rig.Same(t, ask.Check(t, "GET /allow", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=allow")
	}
	end.Store(true)
	for range crowd {
		rig.Same(t, <-done, "")
	}
	r.Signal(t, syscall.SIGCONT)
}

// C114: each error of Redis, in both wordings, is answered by on_error, counted under its kind, and told
// once. Those of a request alone do not open the breaker.
func TestEveryErrorOfRedisIsAnsweredCountedAndTold(t *testing.T) {
	r := rig.StartRedis(t)
	var text atomic.Pointer[string]
	say := func(reply string) { text.Store(&reply) }
	say("")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, strings.NewReplacer("12/d", "9000/d", "100/d", "9000/d").Replace(rig.ThreeAnswers)),
		"--redis="+rig.InFrontOf(t, r, func(client, server net.Conn) {
			answering(client, server, func([]byte) string { return *text.Load() })
		}), "--redis-timeout=20s")
	ask := a.Checker()
	counts := map[string]int{}
	for kind, reply := range rig.RedisReplies(t) {
		allowed := "allow"
		if kind == "oom" || kind == "pool" {
			allowed = "local"
		}
		for path, want := range map[string]string{"/allow": "200 X-Authz-Degraded=" + allowed, "/local": "200 X-Authz-Degraded=local", "/deny": "503 X-Authz-Degraded=deny"} {
			say(reply)
			rig.Same(t, path+" "+reply+" "+ask.Check(t, "GET "+path, nil, "X-Authz-Degraded"), path+" "+reply+" "+want)
			counts[kind]++
			say("")
			rig.Same(t, ask.Check(t, "GET "+path, nil, "X-Authz-Degraded"), "200")
		}
	}
	want := ""
	for _, kind := range redisstore.Kinds {
		want += fmt.Sprintf("authz_store_errors_total{kind=%q} %d\n", kind, counts[kind])
		if lines := strings.Count(a.Logged(), "\"the store cannot answer, on_error decides\" kind="+kind+" "); counts[kind] > 0 != (lines == 1) {
			t.Errorf("%d lines of kind %s, which %d requests met", lines, kind, counts[kind])
		}
	}
	for line := range strings.Lines(a.Metrics(t, "authz_store_errors_total")) {
		if !strings.Contains(want, line) {
			t.Errorf("metrics: %swant one of\n%s", line, want)
		}
	}
	a.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
}

// A key of another type spoils its own requests, for ever if it must be, and nobody else's.
func TestAKeyOfAnotherTypeDoesNotOpenTheBreaker(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=20s")
	ask := a.Checker()
	r.LPush(context.Background(), "authz:v1:{ip=203.0.113.7}:deny:sw", "x")
	for range 10 {
		rig.Same(t, ask.Check(t, "GET /deny", []string{"X-Real-IP: 203.0.113.7"}, "X-Authz-Degraded"), "503 X-Authz-Degraded=deny")
	}
	rig.Same(t, ask.Check(t, "GET /deny", []string{"X-Real-IP: 203.0.113.8"}, "X-Authz-Degraded"), "200")
	rig.Same(t, a.Metrics(t, `authz_store_errors_total{kind="wrongtype"}`), "authz_store_errors_total{kind=\"wrongtype\"} 10\n")
	a.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
}

// Redis that is not there at the start: the breaker opens by the first requests, as at any other time.
func TestABreakerAnswersForARedisThatNeverCame(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=unix://"+filepath.Join(rig.SocketDir(t), "none"))
	ask := a.Checker()
	for range 10 {
		rig.Same(t, ask.Check(t, "GET /allow", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=allow")
	}
	rig.Same(t, a.Metrics(t, `authz_store_errors_total{kind="breaker"}`), "authz_store_errors_total{kind=\"breaker\"} 7\n")
}

// C115: reads work and writes do not. The whole check is on_error's, not half of it Redis's.
func TestADiskThatIsFullIsAFailureOfTheWholeCheck(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+r.URL(), "--redis-timeout=20s")
	ask := a.Checker()
	check := func(path, want string) {
		t.Helper()
		rig.Same(t, path+" "+ask.Check(t, "GET "+path, nil, "X-Authz-Degraded"), path+" "+want)
	}
	ready := func(want string) {
		t.Helper()
		_, body := a.Get(t, "/readyz")
		rig.Same(t, body, "serving\nstore: "+want+"\n")
	}
	for range 8 { // of 12
		check("/local", "200")
	}
	r.FailToSave(t)
	for range 3 {
		check("/local", "200 X-Authz-Degraded=local")
	}
	check("/local", "429 X-Authz-Degraded=local") // the share of one in four, and not what Redis has left
	check("/deny", "503 X-Authz-Degraded=deny")
	check("/allow", "200 X-Authz-Degraded=allow")
	ready("redis, cannot charge: misconf")
	rig.Same(t, a.Metrics(t, `authz_store_errors_total{kind="misconf"}`), "authz_store_errors_total{kind=\"misconf\"} 6\n")
	if n := strings.Count(a.Logged(), "kind=misconf"); n != 1 {
		t.Errorf("%d lines of kind misconf, want 1 in 30 s", n)
	}
	a.BreakerMetrics(t, `openings_total 0 state{state="closed"} 1 state{state="open"} 0`)
	r.ConfigSet(context.Background(), "save", "")
	for range 4 {
		check("/local", "200")
	}
	check("/local", "429")
	ready("redis, answers")
}
