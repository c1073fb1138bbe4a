package rig

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

// Monitor listens to all that Redis is told from now on. What it returns ends that, and returns all of it.
func (r *RedisServer) Monitor(t *testing.T) (heard func() string) {
	t.Helper()
	c, err := net.Dial("unix", r.Socket)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "MONITOR\r\n")
	lines := bufio.NewReader(c)
	if line, err := lines.ReadString('\n'); err != nil || line != "+OK\r\n" {
		t.Fatal(line, err)
	}
	var all strings.Builder
	var listening sync.WaitGroup
	listening.Go(func() {
		defer c.Close()
		for {
			line, err := lines.ReadString('\n')
			if err != nil || strings.Contains(line, "that is all") {
				return
			}
			all.WriteString(line)
		}
	})
	return func() string {
		r.MustDo(t, "echo", "that is all")
		listening.Wait()
		return all.String()
	}
}
