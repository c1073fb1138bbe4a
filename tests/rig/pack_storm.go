package rig

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Crowd sends requests with so many clients at once, each on a connection of its own, and counts the
// answers by status and X-Seen: "200 admitted". during runs when half of them are answered.
func (n *NginxServer) Crowd(t *testing.T, clients, requests int, target string, during func()) map[string]int {
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
				if response, err := client.Get("http://" + n.Addr + target); err == nil {
					said = ReadAnswer(t, response).Show("X-Seen")
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

// SayOK is a location without an application behind it, and tells what was decided.
const SayOK = `
	keepalive_requests 1000000;
	add_header X-Seen $authz_degraded always;
	location / { content_by_lua_block { ngx.print("ok") } }`

// Workers are the PIDs of nginx's workers.
func (n *NginxServer) Workers(t testing.TB) []string {
	t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", n.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(children))
}

// Sockets is how many sockets nginx's workers have open.
func (n *NginxServer) Sockets(t testing.TB) (count int) {
	t.Helper()
	for _, pid := range n.Workers(t) {
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
