package faults

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"authz/tests/rig"
)

// A liar is in front of a Redis, and says what it is told to instead of the replies to EVALSHA.
type liar struct {
	socket string
	says   atomic.Pointer[func(client net.Conn, reply []byte)] // nil: it passes on what Redis says
	asked  atomic.Int32                                        // connections with a lie on them, anew for each lie
}

func startLiar(t *testing.T, r *rig.RedisServer) *liar {
	t.Helper()
	l := &liar{}
	url := rig.InFrontOf(t, r, func(client, server net.Conn) {
		var take atomic.Bool // the latest request charges somebody; the watch of the service does not
		go func() {
			defer server.Close()
			buf := make([]byte, 64<<10)
			for {
				n, err := client.Read(buf)
				if err != nil {
					return
				}
				take.Store(bytes.Contains(buf[:n], []byte("authz:v1:{")))
				server.Write(buf[:n])
			}
		}()
		reply, said := make([]byte, 64<<10), (*func(net.Conn, []byte))(nil)
		for {
			n, err := server.Read(reply)
			if err != nil {
				return
			}
			says := l.says.Load()
			if says == nil || !take.Load() {
				client.Write(reply[:n])
				continue
			}
			if says != said {
				said = says
				l.asked.Add(1)
			}
			(*says)(client, reply[:n])
		}
	})
	l.socket = strings.TrimPrefix(url, "unix://")
	return l
}

// lies are what no Redis says to our scripts, and what they are called.
var lies = []struct{ name, kinds, says string }{
	{"no type", "malformed", "\r\n"},
	{"no number", "malformed", ":\r\n"},
	{"no length", "malformed", "*x\r\n"},
	{"no length of a text", "malformed", "$x\r\n"},
	{"another protocol", "malformed", "HTTP/1.1 400 Bad Request\r\n\r\n"},
	{"OK", "malformed", "+OK\r\n"},
	{"a text", "malformed", "$2\r\nhi\r\n"},
	{"nil", "malformed", "$-1\r\n"},
	{"no list", "malformed", "*-1\r\n"},
	{"an empty list", "malformed", "*0\r\n"},
	{"one number", "malformed", ":1\r\n"},
	{"too few numbers", "malformed", "*2\r\n:1\r\n:1\r\n"},
	{"too many numbers", "malformed", "*6\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"},
	{"texts for numbers", "malformed", "*4\r\n$1\r\n1\r\n$1\r\n1\r\n$1\r\n0\r\n$1\r\n0\r\n"},
	{"a list in a list", "malformed", "*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n"},
	{"an error in a list", "malformed", "*1\r\n-ERR no\r\n"},
	{"a number that is none", "malformed", "*4\r\n:1\r\n:x\r\n:1\r\n:1\r\n"},
	{"a number without end", "malformed timeout", "*4\r\n:99999999999999999999999999\r\n"},
	{"a list without end", "malformed timeout", "*2147483647\r\n:1\r\n"},
	{"a text without end", "malformed timeout", "$2147483647\r\nhi"},
	{"a map", "malformed", "%1\r\n+a\r\n:1\r\n"},
	{"a set", "malformed", "~1\r\n:1\r\n"},
	{"a push", "malformed", ">2\r\n+invalidate\r\n*0\r\n"},
	{"a double, a boolean, a null", "malformed", ",1.5\r\n#t\r\n_\r\n"},
	{"an error of no kind", "other", "-\r\n"},
	{"an error that nobody knows", "other", "-WHATEVER this may be\r\n"},
	{"nothing of a list", "malformed timeout", "*4\r\n"},
	{"half a number", "malformed timeout", "*4\r\n:1\r\n:1"},
	{"nothing", "timeout", ""},
}

// Whatever a Redis says that is none, or is one that has lost its mind: on_error decides, nobody gets an
// error, and the connection is not used again.
func TestALieIsAnsweredByOnErrorAndEndsItsConnection(t *testing.T) {
	s := &rig.Scene{Redis: rig.StartRedis(t)}
	front := startLiar(t, s.Redis)
	s.Doors = startDoors(t, faultLimits, address{socket: front.socket}, rig.Briefly)
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			says := func(client net.Conn, _ []byte) { io.WriteString(client, lie.says) }
			for _, d := range s.Doors {
				s.AwaitNormal(t, "/deny")
				before, connections := d.Errors(t), front.asked.Load()
				front.says.Store(&says)
				for range 2 { // a third would open a breaker
					rig.Same(t, d.Name+" "+d.Ask(t, "/deny"), d.Name+" 503 deny")
				}
				front.says.Store(nil)
				asked := 0
				for kind, n := range d.Errors(t) {
					if n -= before[kind]; n > 0 && kind != openBreaker {
						asked += n
						if !slices.Contains(strings.Fields(lie.kinds), kind) {
							t.Errorf("%s: an error of kind %s, want %s", d.Name, kind, lie.kinds)
						}
					}
				}
				// After an error of Redis's own the connection is as good as before.
				if n := int(front.asked.Load() - connections); n == 0 || n != asked && lie.kinds != "other" {
					t.Errorf("%s: %d lies on %d connections, want one each", d.Name, asked, n)
				}
			}
		})
	}
}

// A reply that is followed by another is one reply; the other is for nobody.
func TestAReplyTooManyIsForNobody(t *testing.T) {
	s := &rig.Scene{Redis: rig.StartRedis(t)}
	front := startLiar(t, s.Redis)
	s.Doors = startDoors(t, faultLimits, address{socket: front.socket}, rig.Amply)
	for _, d := range s.Doors {
		says := func(client net.Conn, reply []byte) { client.Write(append(reply, "*4\r\n:0\r\n:0\r\n:9\r\n:9\r\n"...)) }
		front.says.Store(&says)
		for i := range 5 {
			rig.Same(t, fmt.Sprint(d.Name, i, " ", d.Ask(t, "/deny")), fmt.Sprint(d.Name, i, " 200"))
		}
	}
}
