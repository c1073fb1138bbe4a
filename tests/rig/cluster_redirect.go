package rig

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// A Puppet is a node of a cluster that says what the test tells it to: what a real one says for an
// instant only, or never.
type Puppet struct {
	Port string

	mu     sync.Mutex
	says   []string // to one EVALSHA after the other; the last to all after it
	heard  []string // commands, but for those that any client begins with
	Owners string   // what CLUSTER SLOTS says; "": the node hangs when it is asked about the cluster
	looks  int      // how often it has been asked that

	info string // what INFO says
}

const Admits = "*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n" // what a script says of a single check

// StartPuppet starts a node that owns all slots.
func StartPuppet(t *testing.T, says ...string) *Puppet {
	t.Helper()
	n := &Puppet{Port: FreePort(t), says: says}
	n.Owners = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$0\r\n\r\n:%s\r\n$40\r\n%040d\r\n", n.Port, 1) // at the host that was asked
	ListenFor(t, "tcp", "127.0.0.1:"+n.Port, func(client net.Conn) {
		for in := bufio.NewReader(client); ; {
			command, err := WholeCommand(in)
			if err != nil {
				return
			}
			var words []string
			for i, line := range strings.Split(string(command), "\r\n") {
				if i > 0 && i%2 == 0 {
					words = append(words, line)
				}
			}
			io.WriteString(client, n.answer(words))
		}
	})
	return n
}

func (n *Puppet) answer(words []string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch words[0] {
	case "hello":
		return "-ERR unknown command 'hello'\r\n"
	case "cluster":
		if words[1] == "info" && n.Owners != "" {
			return "$41\r\ncluster_state:ok\r\ncluster_current_epoch:1\r\n"
		}
		if words[1] == "slots" {
			n.looks++
		}
		return n.Owners
	case "info":
		return fmt.Sprintf("$%d\r\n%s\r\n", len(n.info), n.info)
	case "asking":
		n.heard = append(n.heard, words[0])
		return "+OK\r\n"
	case "get":
		n.heard = append(n.heard, strings.Join(words, " "))
	default:
		n.heard = append(n.heard, words[0])
	}
	say := n.says[0]
	if len(n.says) > 1 {
		n.says = n.says[1:]
	}
	return say
}

func (n *Puppet) Commands() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.heard, " ")
}

func (n *Puppet) Looked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.looks
}

// Own has it say another thing to CLUSTER SLOTS, and inform to INFO.
func (n *Puppet) Own(owners string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Owners = owners
}

func (n *Puppet) Inform(info string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.info = info
}
