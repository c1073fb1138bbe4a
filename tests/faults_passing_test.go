package tests

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// What ends by itself: half-open connections, which nobody is told of, a Redis that is busy for half a
// second, and connections that Redis closes. A request meanwhile is decided by Redis or by on_error, and
// after it by Redis.
func TestAFaultThatPassesIsOverByItself(t *testing.T) {
	for name, passing := range map[string]struct {
		begin func(t *testing.T, s *scene, strand func())
		shows bool // requests fail, and not only by chance
	}{
		"half-open connections": {shows: true, begin: func(_ *testing.T, _ *scene, strand func()) { strand() }},
		"half a second of sleep": {shows: true, begin: func(t *testing.T, s *scene, _ func()) {
			var sleep sync.WaitGroup
			sleep.Go(func() { s.redis.do(t, "debug", "sleep", "0.5") })
			t.Cleanup(sleep.Wait)
			await(t, "timeout", func() bool { got, _ := s.doors[0].get("/deny"); return got == "503 deny" })
		}},
		"connections closed": {begin: func(t *testing.T, s *scene, _ func()) { s.redis.do(t, "client", "kill", "type", "normal") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{redis: startRedis(t, "--enable-debug-command", "yes")}
			front := startStrander(t, s.redis)
			s.doors = startDoors(t, faultLimits, address{socket: front.socket}, briefly)
			s.awaitNormal(t, "/deny")
			before := s.doors[0].errors(t)
			passing.begin(t, s, front.strand)
			for _, d := range s.doors {
				await(t, "answer of Redis", func() bool {
					got := d.ask(t, "/deny")
					if got != "200" && got != "503 deny" {
						t.Errorf("%s: %s, want 200 or 503 deny", d.name, got)
					}
					return got == "200"
				})
			}
			if kinds := s.doors[0].errorsSince(t, before); passing.shows && !slices.Contains(kinds, "timeout") {
				t.Errorf("errors of kinds %v, want timeouts", kinds)
			}
		})
	}
}

// ask is an answer, which comes in time.
func (d *door) ask(t *testing.T, path string) string {
	t.Helper()
	began := time.Now()
	answer, err := d.get(path)
	if err != nil {
		answer = err.Error()
	}
	if took := time.Since(began); took > briefly+grace {
		t.Errorf("%s%s took %v, want %v at most and a little", d.name, path, took, briefly)
	}
	return answer
}

// C106: a request that was written, and whose connection died before the whole reply had come, has been
// run once, and is answered as one that Redis could not decide.
func TestARequestWhoseConnectionDiedHasRunOnce(t *testing.T) {
	for _, f := range wayFaults {
		if !f.runs {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			s := f.stage(t)
			for _, d := range s.doors {
				s.awaitNormal(t, "/deny") // on a connection that is kept
				charges := s.redis.calls(t, "set")
				f.begin(t, s)
				same(t, d.name+" "+d.ask(t, "/deny"), d.name+" 503 deny")
				f.end(t, s)
				await(t, "end of the script", func() bool { return s.redis.calls(t, "set") > charges })
				if n := s.redis.calls(t, "set") - charges; n != 1 {
					t.Errorf("%s: charged %d times, want once", d.name, n)
				}
			}
		})
	}
}

// C105: scripts and counts are forgotten all the time, and no answer says so.
func TestNothingThatRedisForgetsCostsAnAnswer(t *testing.T) {
	s := &scene{redis: startRedis(t)}
	s.doors = startDoors(t, faultLimits, address{socket: s.redis.socket}, amply)
	done := make(chan struct{})
	var asking, forgetting sync.WaitGroup
	for _, command := range [][]any{{"script", "flush"}, {"flushall"}} {
		forgetting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.redis.Do(t.Context(), command...)
				}
			}
		})
	}
	for _, d := range s.doors {
		for range 8 {
			asking.Go(func() {
				for range 100 {
					same(t, d.name+" "+d.ask(t, "/deny"), d.name+" 200")
				}
			})
		}
	}
	asking.Wait()
	close(done)
	forgetting.Wait()
	for _, d := range s.doors {
		same(t, fmt.Sprint(d.name, d.errorsSince(t, map[string]int{"timeout": 0})), d.name+"[]")
	}
	if s.redis.calls(t, "eval") == 0 {
		t.Error("no EVAL, want some after the flushes")
	}
}

// C108, C109: nobody is asked before a connection is made, and the time for that is the call's.
func TestAConnectionThatIsNeverMadeCostsTheTimeoutAndNoMore(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and does nothing with them
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	full := fmt.Sprint("127.0.0.1:", fullPort(t))
	for what, url := range map[string]string{"a full queue": "redis://" + full, "a full queue before TLS": "rediss://" + full,
		"no greeting": "redis://" + silent.Addr().String(), "no password": "redis://u:p@" + silent.Addr().String(),
		"no handshake": "rediss://" + silent.Addr().String()} {
		s := openRedisURL(t, url, briefly)
		began := time.Now()
		same(t, what+" "+kindOf(s, check(newLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)), what+" timeout")
		if took := time.Since(began); took < briefly || took > briefly+grace {
			t.Errorf("%s took %v, want %v and a little", what, took, briefly)
		}
	}
}
