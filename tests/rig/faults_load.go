package rig

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A Hull is the most that a process had of something while it was looked at.
type Hull struct{ MemoryMB, Goroutines, Sockets int }

func (h *Hull) Extend(o Hull) {
	h.MemoryMB, h.Goroutines, h.Sockets = max(h.MemoryMB, o.MemoryMB), max(h.Goroutines, o.Goroutines), max(h.Sockets, o.Sockets)
}

func (a *AuthzServer) Hull(t testing.TB) Hull {
	t.Helper()
	_, text := a.Get(t, "/metrics")
	number := func(name string) (n float64) {
		_, after, _ := strings.Cut(text, "\n"+name+" ")
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Error(name, err)
		}
		return n
	}
	return Hull{int(number("process_resident_memory_bytes")) >> 20, int(number("go_goroutines")), int(number("process_open_fds"))}
}

// Hull is that of nginx's workers.
func (n *NginxServer) Hull(t testing.TB) (h Hull) {
	t.Helper()
	for _, pid := range n.Workers(t) {
		text, err := os.ReadFile("/proc/" + pid + "/statm")
		if err != nil {
			t.Fatal(err)
		}
		var size, resident int
		fmt.Sscan(string(text), &size, &resident)
		h.MemoryMB += resident * os.Getpagesize() >> 20
	}
	h.Sockets = n.Sockets(t)
	return h
}
