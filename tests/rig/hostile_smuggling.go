package rig

import (
	"io"
	"strings"
	"testing"
)

// Converse sends bytes and returns the statuses of all answers until nginx closes.
func (n *NginxServer) Converse(t *testing.T, text string) (statuses string) {
	t.Helper()
	c := n.Dial(t, n.Addr)
	defer c.Close()
	io.WriteString(c, text)
	all, _ := io.ReadAll(c) // may end with a reset: nginx closes on what it does not like
	for line := range strings.Lines(string(all)) {
		if _, after, found := strings.Cut(line, "HTTP/1.1 "); found {
			statuses += " " + after[:3]
		}
	}
	return statuses
}
