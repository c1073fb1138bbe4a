package openresty

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"authz/tests/rig"
)

const aThousand = `
	[limit.thousand]
	key = []
	algorithm = "fixed_window"
	rate = "1000/366d"`

// C131: no connection is shared by requests: ten thousand of them, fifty at a time, without an error, and
// exactly the limit is admitted; in Redis, and in the shared dict.
func TestTenThousandRequestsAreTenThousandAnswers(t *testing.T) {
	for _, r := range []*rig.RedisServer{rig.StartRedis(t), nil} {
		s := rig.StartPack(t, r, "", rig.SiteConf{Limits: aThousand, Server: rig.SayOK})
		rig.Same(t, fmt.Sprint(s.Crowd(t, 50, 10000, "/", nil)), "map[200:1000 429:9000]")
		rig.Same(t, s.Metric(t, `authz_decisions_total{limit="thousand",verdict="admitted"}`), "1000")
		if r == nil {
			continue
		}
		if got := s.Asked(t); got != 10000 {
			t.Errorf("Redis decided %d requests, want 10000", got)
		}
		if n := connectionsMade(t, r); n > 120 {
			t.Errorf("%d connections for 10000 requests, want about one for each of 50 clients and 2 workers", n)
		}
	}
}

func connectionsMade(t testing.TB, r *rig.RedisServer) (n int) {
	t.Helper()
	_, text, _ := strings.Cut(r.Info(context.Background(), "stats").Val(), "total_connections_received:")
	if _, err := fmt.Sscan(text, &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// C105: the scripts are forgotten all the time, and no request notices.
func TestForgottenScriptsCostNoRequestOfThePack(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: aThousand, Server: rig.SayOK})
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
	got := fmt.Sprint(s.Crowd(t, 20, 2000, "/", nil))
	close(done)
	flushes.Wait()
	rig.Same(t, got, "map[200:1000 429:1000]")
	if r.Calls(t, "eval") == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
	if lines := rig.CountLines(s.Read(t, "error.log"), "Redis has forgotten the scripts"); lines != 1 {
		t.Errorf("%d lines in the log, want one", lines)
	}
}

// A Redis that is stopped, and one that is killed, under load: every request is answered by on_error, and
// no connection is left behind.
func TestARedisThatEndsUnderLoadIsAnsweredByOnError(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for onError, want := range map[string]string{"allow": "200 X-Seen=allow", "deny": "503 X-Seen=deny", "local": "200 X-Seen=local"} {
			t.Run(fmt.Sprint(signal, " ", onError), func(t *testing.T) {
				r := rig.StartRedis(t)
				options := fmt.Sprintf(`redis = {socket = "%s", timeout = "200ms"},`, r.Socket)
				s := rig.StartPack(t, nil, options, rig.SiteConf{Server: rig.SayOK, Limits: fmt.Sprintf(`
					[limit.much]
					key = []
					algorithm = "token_bucket"
					rate = "1000000000/s"
					on_error = "%s"`, onError)})
				s.MayLog = []string{"connect() to unix:"}
				rig.Await(t, "start of both workers", func() bool { return len(s.Workers(t)) == 2 })
				before := s.Sockets(t)
				got := s.Crowd(t, 50, 3000, "/", func() { r.Signal(t, signal) })
				all := got["200"] + got[want]
				if onError == "allow" && signal == syscall.SIGSTOP {
					all += got["200 X-Seen=local"] // its queue of new connections is full, as a flood could fill it
				}
				if all != 3000 || got["200"] < 500 || got[want] == 0 {
					t.Errorf("answers %v, want 3000 of 200 and %s", got, want)
				}
				if onError == "allow" && signal == syscall.SIGSTOP {
					r.Signal(t, syscall.SIGCONT)
					rig.Await(t, "answer of the Redis that runs again", func() bool { return s.Send(t, "GET /", "").Show("X-Seen") == "200" })
				}
				// What stays is at most a pool of idle connections in each worker. nginx hears of the
				// clients that have gone a little later.
				most := before + 2*50
				if signal == syscall.SIGKILL {
					most = before + 4
				}
				rig.Await(t, fmt.Sprint("end of all sockets but ", most), func() bool { return s.Sockets(t) <= most })
			})
		}
	}
}
