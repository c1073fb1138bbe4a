package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"authz/internal/store/redisstore"
)

// A puppet is a node of a cluster that says what the test tells it to: what a real one says for an
// instant only, or never.
type puppet struct {
	port string

	mu     sync.Mutex
	says   []string // to one EVALSHA after the other; the last to all after it
	heard  []string // commands, but for those that any client begins with
	owners string   // what CLUSTER SLOTS says; "": the node hangs when it is asked about the cluster
	looks  int      // how often it has been asked that

	info string // what INFO says
}

const admits = "*4\r\n:1\r\n:4\r\n:0\r\n:9\r\n" // what a script says of a single check

// startPuppet starts a node that owns all slots.
func startPuppet(t *testing.T, says ...string) *puppet {
	t.Helper()
	n := &puppet{port: freePort(t), says: says}
	n.owners = fmt.Sprintf("*1\r\n*3\r\n:0\r\n:16383\r\n*3\r\n$0\r\n\r\n:%s\r\n$40\r\n%040d\r\n", n.port, 1) // at the host that was asked
	listenFor(t, "tcp", "127.0.0.1:"+n.port, func(client net.Conn) {
		for in := bufio.NewReader(client); ; {
			command, err := wholeCommand(in)
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

func (n *puppet) answer(words []string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch words[0] {
	case "hello":
		return "-ERR unknown command 'hello'\r\n"
	case "cluster":
		if words[1] == "info" && n.owners != "" {
			return "$41\r\ncluster_state:ok\r\ncluster_current_epoch:1\r\n"
		}
		if words[1] == "slots" {
			n.looks++
		}
		return n.owners
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

func (n *puppet) commands() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.heard, " ")
}

func (n *puppet) looked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.looks
}

// own has it say another thing to CLUSTER SLOTS, and inform to INFO.
func (n *puppet) own(owners string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owners = owners
}

func (n *puppet) inform(info string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.info = info
}

// MOVED, ASK, TRYAGAIN and NOSCRIPT are followed, to where they say, and not for ever.
func TestWhatANodeSaysInsteadOfAnAnswerIsFollowed(t *testing.T) {
	c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	run := func(want, wantFirst, wantSecond string, first, second []string) {
		t.Helper()
		b := startPuppet(t, second...)
		for i, say := range first {
			first[i] = strings.ReplaceAll(say, "THERE", "127.0.0.1:"+b.port)
		}
		a := startPuppet(t, first...)
		s := openRedisURL(t, "redis://127.0.0.1:"+a.port+"?cluster=true", 10*time.Second)
		same(t, kindOf(s, c), want)
		same(t, fmt.Sprintf("%s, %s", a.commands(), b.commands()), fmt.Sprintf("%s, %s", wantFirst, wantSecond))
	}
	say := func(words ...string) []string { return words }
	run("admitted", "evalsha", "", say(admits), say(admits))
	run("admitted", "evalsha eval", "", say("-NOSCRIPT No matching script\r\n", admits), say(admits))
	run("admitted", "evalsha", "evalsha", say("-MOVED 1 THERE\r\n"), say(admits))
	run("admitted", "evalsha", "evalsha eval", say("-MOVED 1 THERE\r\n"), say("-NOSCRIPT No matching script\r\n", admits))
	run("admitted", "evalsha", "asking evalsha", say("-ASK 1 THERE\r\n"), say(admits))
	run("admitted", "evalsha", "asking evalsha asking eval", say("-ASK 1 THERE\r\n"), say("-NOSCRIPT No matching script\r\n", admits))
	run("admitted", "evalsha evalsha evalsha", "", say("-TRYAGAIN Multiple keys\r\n", "-TRYAGAIN Multiple keys\r\n", admits), say(admits))
	run("admitted", "evalsha", "asking evalsha asking evalsha", say("-ASK 1 THERE\r\n"), say("-TRYAGAIN Multiple keys\r\n", admits))
	run("moved", "evalsha"+strings.Repeat(" evalsha", 8), "", say("-TRYAGAIN Multiple keys\r\n"), say(admits))
	run("moved", "evalsha", strings.Repeat("asking evalsha ", 7)+"asking evalsha", say("-ASK 1 THERE\r\n"), say("-TRYAGAIN Multiple keys\r\n"))
	run("moved", "evalsha", "", say("-MOVED nonsense\r\n"), say(admits))

	// These are no answers either, but are not followed.
	run("noscript", "evalsha eval", "", say("-NOSCRIPT No matching script\r\n"), say(admits))
	run("clusterdown", "evalsha", "", say("-CLUSTERDOWN Hash slot not served\r\n"), say(admits))
	run("loading", "evalsha", "", say("-LOADING Redis is loading the dataset in memory\r\n"), say(admits))
	run("busy", "evalsha", "", say("-BUSY Redis is busy\r\n"), say(admits))
	run("crossslot", "evalsha", "", say("-CROSSSLOT Keys in request don't hash to the same slot\r\n"), say(admits))
	run("readonly", "evalsha", "", say("-READONLY You can't write against a read only replica.\r\n"), say(admits))
	run("malformed", "evalsha", "", say("*0\r\n"), say(admits))
}

// The epoch, which tells that somebody was reset, is one key like any other.
func TestAKeyIsReadWhereverItIs(t *testing.T) {
	second := startPuppet(t, "$2\r\nv2\r\n")
	there := " 1 127.0.0.1:" + second.port + "\r\n"
	first := startPuppet(t, "$2\r\nv1\r\n", "$-1\r\n", "-ASK"+there, "-MOVED"+there)
	s := openRedisURL(t, "redis://127.0.0.1:"+first.port+"?cluster=true", 10*time.Second)
	for _, want := range []string{"v1", "", "v2", "v2"} {
		got, err := redisstore.Get(t.Context(), s, "authz:v1:epoch")
		if got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	get := "get authz:v1:epoch"
	same(t, first.commands()+", "+second.commands(), strings.Join([]string{get, get, get, get}, " ")+", "+strings.Join([]string{"asking", get, get}, " "))
}
