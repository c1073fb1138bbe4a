package faults

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"authz/tests/rig"
)

// What ends by itself: half-open connections, which nobody is told of, a Redis that is busy for half a
// second, and connections that Redis closes. A request meanwhile is decided by Redis or by on_error, and
// after it by Redis.
func TestAFaultThatPassesIsOverByItself(t *testing.T) {
	for name, passing := range map[string]struct {
		begin func(t *testing.T, s *rig.Scene, strand func())
		shows bool // requests fail, and not only by chance
	}{
		"half-open connections": {shows: true, begin: func(_ *testing.T, _ *rig.Scene, strand func()) { strand() }},
		"half a second of sleep": {shows: true, begin: func(t *testing.T, s *rig.Scene, _ func()) {
			var sleep sync.WaitGroup
			sleep.Go(func() { s.Redis.MustDo(t, "debug", "sleep", "0.5") })
			t.Cleanup(sleep.Wait)
			rig.Await(t, "timeout", func() bool { got, _ := s.Doors[0].Get("/deny"); return got == "503 deny" })
		}},
		"connections closed": {begin: func(t *testing.T, s *rig.Scene, _ func()) { s.Redis.MustDo(t, "client", "kill", "type", "normal") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &rig.Scene{Redis: rig.StartRedis(t, "--enable-debug-command", "yes")}
			front := startStrander(t, s.Redis)
			s.Doors = startDoors(t, faultLimits, address{socket: front.socket}, rig.Briefly)
			s.AwaitNormal(t, "/deny")
			before := s.Doors[0].Errors(t)
			passing.begin(t, s, front.strand)
			for _, d := range s.Doors {
				rig.Await(t, "answer of Redis", func() bool {
					got := d.Ask(t, "/deny")
					if got != "200" && got != "503 deny" {
						t.Errorf("%s: %s, want 200 or 503 deny", d.Name, got)
					}
					return got == "200"
				})
			}
			if kinds := s.Doors[0].ErrorsSince(t, before); passing.shows && !slices.Contains(kinds, "timeout") {
				t.Errorf("errors of kinds %v, want timeouts", kinds)
			}
		})
	}
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
			for _, d := range s.Doors {
				s.AwaitNormal(t, "/deny") // on a connection that is kept
				charges := s.Redis.Calls(t, "set")
				f.begin(t, s)
				rig.Same(t, d.Name+" "+d.Ask(t, "/deny"), d.Name+" 503 deny")
				f.end(t, s)
				rig.Await(t, "end of the script", func() bool { return s.Redis.Calls(t, "set") > charges })
				if n := s.Redis.Calls(t, "set") - charges; n != 1 {
					t.Errorf("%s: charged %d times, want once", d.Name, n)
				}
			}
		})
	}
}

// C105: scripts and counts are forgotten all the time, and no answer says so.
func TestNothingThatRedisForgetsCostsAnAnswer(t *testing.T) {
	s := &rig.Scene{Redis: rig.StartRedis(t)}
	s.Doors = startDoors(t, faultLimits, address{socket: s.Redis.Socket}, rig.Amply)
	done := make(chan struct{})
	var asking, forgetting sync.WaitGroup
	for _, command := range [][]any{{"script", "flush"}, {"flushall"}} {
		forgetting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					s.Redis.Do(t.Context(), command...)
				}
			}
		})
	}
	for _, d := range s.Doors {
		for range 8 {
			asking.Go(func() {
				for range 100 {
					rig.Same(t, d.Name+" "+d.Ask(t, "/deny"), d.Name+" 200")
				}
			})
		}
	}
	asking.Wait()
	close(done)
	forgetting.Wait()
	for _, d := range s.Doors {
		rig.Same(t, fmt.Sprint(d.Name, d.ErrorsSince(t, map[string]int{"timeout": 0})), d.Name+"[]")
	}
	if s.Redis.Calls(t, "eval") == 0 {
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
	full := fmt.Sprint("127.0.0.1:", rig.FullPort(t))
	for what, url := range map[string]string{"a full queue": "redis://" + full, "a full queue before TLS": "rediss://" + full,
		"no greeting": "redis://" + silent.Addr().String(), "no password": "redis://u:p@" + silent.Addr().String(),
		"no handshake": "rediss://" + silent.Addr().String()} {
		s := rig.OpenRedisURL(t, url, rig.Briefly)
		began := time.Now()
		rig.Same(t, what+" "+rig.KindOf(s, rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)), what+" timeout")
		if took := time.Since(began); took < rig.Briefly || took > rig.Briefly+rig.Grace {
			t.Errorf("%s took %v, want %v and a little", what, took, rig.Briefly)
		}
	}
}
