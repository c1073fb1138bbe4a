package service

import (
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// C150: one of two instances ends under load, while nginx keeps connections to both. No client sees it.
func TestAnInstanceThatEndsCostsNoClientAnything(t *testing.T) {
	dir := rig.SocketDir(t)
	sockets := [2]string{filepath.Join(dir, "one.sock"), filepath.Join(dir, "two.sock")}
	limits := rig.Limit("a", "sliding_window", "10000/d")
	s := rig.StartSite(t, rig.SiteConf{
		Limits: limits,
		Server: rig.ClosedServer,
		Serve:  []string{"--listen=unix:" + sockets[0]},
		Upstream: fmt.Sprintf(`upstream authz {
			server unix:%s;
			server unix:%s;
			keepalive 16;
		}`, sockets[0], sockets[1]),
	})
	s.MayLog = []string{"one.sock failed (2: No such file or directory)"}
	rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--listen=unix:"+sockets[1], "--redis="+s.Redis.URL(), "--redis-timeout=20s")

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var ended atomic.Bool
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 16 {
		clients.Go(func() {
			for !ended.Load() {
				resp, err := client.Get("http://" + s.Addr + "/a")
				if err != nil {
					t.Error(err)
					return
				}
				if got := rig.ReadAnswer(t, resp).Status; got != 200 {
					t.Errorf("a client got %d, want 200", got)
					return
				}
				answered.Add(1)
			}
		})
	}
	reach := func(n int64) {
		target := answered.Load() + n
		rig.Await(t, "hundred answers more", func() bool { return answered.Load() >= target || t.Failed() })
	}
	reach(100)
	s.Authz.Signal(t, syscall.SIGTERM)
	code := s.Authz.Wait(t)
	reach(100)
	ended.Store(true)
	clients.Wait()
	if code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}
