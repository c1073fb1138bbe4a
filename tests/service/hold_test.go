package service

import (
	"bufio"
	"fmt"
	"net/http"
	"testing"
	"time"

	"authz/tests/rig"
)

// An answer leaves at most 950 ms after its request came, hold included, however long Redis took and however slowly the
// request arrived: nginx waits for a second.
func TestAHeldAnswerLeavesInTimeWhateverRedisTook(t *testing.T) {
	port := rig.FreePort(t)
	r := rig.StartRedis(t, "--port", port)
	way := rig.StartWay(t, "127.0.0.1:"+port)
	a := rig.StartAuthz(t, "--redis=redis://127.0.0.1:"+way.Port, "--redis-timeout=900ms", "--limits="+rig.LimitsFile(t, `
		[defaults]
		hold_max = "900ms"
		[limit.queue]
		key       = ["ip"]
		algorithm = "leaky_bucket"
		rate      = "10/9s"
		burst     = 1`))
	a.Checker().Check(t, "GET /", []string{"X-Real-IP: 192.0.2.1"}) // the connection to Redis is there
	// ask sends a request in two parts, with a pause between them, and returns the status and the time from its first byte.
	ask := func(ip string, pause time.Duration) (string, time.Duration) {
		t.Helper()
		c, err := rig.Dial(a.Addr)
		if err != nil {
			t.Error(err)
			return "", 0
		}
		defer c.Close()
		began := time.Now()
		fmt.Fprintf(c, "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n")
		time.Sleep(pause) // a slow sender is the fault that is tried
		fmt.Fprintf(c, "X-Real-IP: %s\r\n\r\n", ip)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Error(err)
			return "", 0
		}
		resp.Body.Close()
		return resp.Header.Get("X-Authz-Status"), time.Since(began)
	}
	// check sends two requests of a client: the second comes while the first is under way, and is held.
	check := func(what, ip string, pause time.Duration) {
		t.Helper()
		before, first := r.Calls(t, "evalsha"), make(chan string, 1)
		go func() {
			status, _ := ask(ip, 0)
			first <- status
		}()
		rig.Await(t, "the first at Redis", func() bool { return r.Calls(t, "evalsha") > before })
		status, took := ask(ip, pause)
		if status != "200" || took < 800*time.Millisecond || took > 990*time.Millisecond {
			t.Errorf("%s: the second: %s after %v, want 200 after 950 ms at most, and held", what, status, took)
		}
		rig.Same(t, <-first, "200")
	}
	check("Redis is fast", "192.0.2.2", 0)
	check("Redis is fast, the request is slow", "192.0.2.3", 300*time.Millisecond)
	way.Poison(t, rig.Toxic("downstream", "latency", `"latency": 250`))
	check("Redis is slow", "192.0.2.4", 0)
	check("both are slow", "192.0.2.5", 300*time.Millisecond)
	if n := r.Calls(t, "evalsha"); n != 9 {
		t.Errorf("%d calls to Redis, want 9", n)
	}
}
