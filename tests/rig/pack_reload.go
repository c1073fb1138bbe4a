package rig

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// PolicyFile is where the limits of startPack lie.
func (s *Site) PolicyFile() string { return filepath.Join(s.Dir, "limits.json") }

// AwaitLog waits until the error log has this so many times.
func (n *NginxServer) AwaitLog(t testing.TB, count int, text string) {
	t.Helper()
	Await(t, fmt.Sprintf("%q %d times in the log", text, count), func() bool {
		return strings.Count(n.Read(t, "error.log"), text) >= count
	})
}
