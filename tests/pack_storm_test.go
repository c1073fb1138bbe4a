package tests

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// crowd sends requests with so many clients at once, each on a connection of its own, and counts the
// answers by status and X-Seen: "200 admitted". during runs when half of them are answered.
func (n *nginxServer) crowd(t *testing.T, clients, requests int, target string, during func()) map[string]int {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var sent, answered atomic.Int64
	got := map[string]int{}
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for sent.Add(1) <= int64(requests) {
				said := "error"
				if response, err := client.Get("http://" + n.addr + target); err == nil {
					said = readAnswer(t, response).show("X-Seen")
				}
				mu.Lock()
				got[said]++
				mu.Unlock()
				if answered.Add(1) == int64(requests/2) && during != nil {
					during()
				}
			}
		})
	}
	wg.Wait()
	return got
}

const aThousand = `
	[limit.thousand]
	key = []
	algorithm = "fixed_window"
	rate = "1000/366d"`

// sayOK is a location without an application behind it, and tells what was decided.
const sayOK = `
	keepalive_requests 1000000;
	add_header X-Seen $authz_degraded always;
	location / { content_by_lua_block { ngx.print("ok") } }`

// C131: no connection is shared by requests: ten thousand of them, fifty at a time, without an error, and
// exactly the limit is admitted; in Redis, and in the shared dict.
func TestTenThousandRequestsAreTenThousandAnswers(t *testing.T) {
	for _, r := range []*redisServer{startRedis(t), nil} {
		s := startPack(t, r, "", siteConf{limits: aThousand, server: sayOK})
		same(t, fmt.Sprint(s.crowd(t, 50, 10000, "/", nil)), "map[200:1000 429:9000]")
		same(t, s.metric(t, `authz_decisions_total{limit="thousand",verdict="admitted"}`), "1000")
		if r == nil {
			continue
		}
		if got := s.asked(t); got != 10000 {
			t.Errorf("Redis decided %d requests, want 10000", got)
		}
		if n := connectionsMade(t, r); n > 120 {
			t.Errorf("%d connections for 10000 requests, want about one for each of 50 clients and 2 workers", n)
		}
	}
}

func connectionsMade(t testing.TB, r *redisServer) (n int) {
	t.Helper()
	_, text, _ := strings.Cut(r.Info(context.Background(), "stats").Val(), "total_connections_received:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// C105: the scripts are forgotten all the time, and no request notices.
func TestForgottenScriptsCostNoRequestOfThePack(t *testing.T) {
	r := startRedis(t)
	s := startPack(t, r, "", siteConf{limits: aThousand, server: sayOK})
	done := make(chan struct{})
	var flushes sync.WaitGroup
	flushes.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				r.ScriptFlush(context.Background())
			}
		}
	})
	got := fmt.Sprint(s.crowd(t, 20, 2000, "/", nil))
	close(done)
	flushes.Wait()
	same(t, got, "map[200:1000 429:1000]")
	if r.calls(t, "eval") == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
	if lines := countLines(s.read(t, "error.log"), "Redis has forgotten the scripts"); lines != 1 {
		t.Errorf("%d lines in the log, want one", lines)
	}
}

// A Redis that is stopped, and one that is killed, under load: every request is answered by on_error, and
// no connection is left behind.
func TestARedisThatEndsUnderLoadIsAnsweredByOnError(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for onError, want := range map[string]string{"allow": "200 X-Seen=allow", "deny": "503 X-Seen=deny", "local": "200 X-Seen=local"} {
			t.Run(fmt.Sprint(signal, " ", onError), func(t *testing.T) {
				r := startRedis(t)
				options := fmt.Sprintf(`redis = {socket = "%s", timeout = "200ms"},`, r.socket)
				s := startPack(t, nil, options, siteConf{server: sayOK, limits: fmt.Sprintf(`
					[limit.much]
					key = []
					algorithm = "token_bucket"
					rate = "1000000000/s"
					on_error = "%s"`, onError)})
				s.mayLog = []string{"connect() to unix:"}
				await(t, "start of both workers", func() bool { return len(s.workers(t)) == 2 })
				before := s.sockets(t)
				got := s.crowd(t, 50, 3000, "/", func() { r.signal(t, signal) })
				all := got["200"] + got[want]
				if onError == "allow" && signal == syscall.SIGSTOP {
					all += got["200 X-Seen=local"] // its queue of new connections is full, as a flood could fill it
				}
				if all != 3000 || got["200"] < 500 || got[want] == 0 {
					t.Errorf("answers %v, want 3000 of 200 and %s", got, want)
				}
				if onError == "allow" && signal == syscall.SIGSTOP {
					r.signal(t, syscall.SIGCONT)
					await(t, "answer of the Redis that runs again", func() bool { return s.send(t, "GET /", "").show("X-Seen") == "200" })
				}
				// What stays is at most a pool of idle connections in each worker. nginx hears of the
				// clients that have gone a little later.
				most := before + 2*50
				if signal == syscall.SIGKILL {
					most = before + 4
				}
				await(t, fmt.Sprint("end of all sockets but ", most), func() bool { return s.sockets(t) <= most })
			})
		}
	}
}

// workers are the PIDs of nginx's workers.
func (n *nginxServer) workers(t testing.TB) []string {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", n.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(children))
}

// sockets is how many sockets nginx's workers have open.
func (n *nginxServer) sockets(t testing.TB) (count int) {
	t.Helper()
	for _, pid := range n.workers(t) {
		fds, err := filepath.Glob("/proc/" + pid + "/fd/*")
		if err != nil || len(fds) == 0 {
			t.Fatal(fds, err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink(fd); strings.HasPrefix(to, "socket:") {
				count++
			}
		}
	}
	return count
}
