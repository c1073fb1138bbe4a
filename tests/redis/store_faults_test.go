package redis

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"authz/limits"
	"authz/redisscripts"
	"authz/tests/rig"
)

// C106: the server has run the script, and then the connection is lost, or no reply comes. The
// request is not sent again: it is charged once, and nobody is told that it was.
func TestARequestIsNeverSentTwice(t *testing.T) {
	rig.IsSentOnce(t, func(_ *rig.RedisServer, front string, c limits.Check) string {
		return rig.KindOf(rig.OpenRedisURL(t, front, 2*time.Second), c)
	})
}

// C107, C109: a stopped Redis costs its callers the timeout. When it goes on it finds each request
// once at most, and the same store works again.
func TestAStoppedRedisIsATimeoutAndThenWorksAgain(t *testing.T) {
	r := rig.StartRedis(t)
	direct := rig.OpenRedis(t, r)
	s := rig.OpenRedisURL(t, r.URL(), 100*time.Millisecond)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	sent := int64(0)
	awaitAdmitted := func() {
		rig.Await(t, "answer in time", func() bool { // a busy machine may time out, too
			sent++
			return rig.KindOf(s, c) == "admitted"
		})
	}
	awaitAdmitted()
	r.Signal(t, syscall.SIGSTOP)
	for range 10 {
		sent++
		rig.Same(t, rig.KindOf(s, c), "timeout")
	}
	r.Signal(t, syscall.SIGCONT)
	awaitAdmitted()
	if used := 1000 - rig.Left(t, direct, c); used > sent {
		t.Errorf("%d charged, want %d at most: that many were sent", used, sent)
	}
}

// C108: a Redis that hangs up during the greeting is not greeted again.
func TestADeadRedisIsDialledOnce(t *testing.T) {
	r := rig.StartRedis(t)
	var dials atomic.Int32
	front := rig.InFrontOf(t, r, func(net.Conn, net.Conn) { dials.Add(1) })
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 1e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, front, 10*time.Second), c), "network")
	if n := dials.Load(); n != 1 {
		t.Errorf("dialled %d times, want once", n)
	}
	rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, "unix:///nowhere.sock", 10*time.Second), c), "network")
}

// C121: whoever waits for a connection is told so, and a client may be the cause.
func TestAnExhaustedPoolIsNotATimeoutOfRedis(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedisURL(t, r.URL()+"?pool_size=1", time.Second)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5000, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(s, c), "admitted")
	r.Signal(t, syscall.SIGSTOP)
	kinds := make(chan string, 2)
	for range 2 {
		go func() { kinds <- rig.KindOf(s, c) }()
	}
	got := []string{<-kinds, <-kinds}
	r.Signal(t, syscall.SIGCONT)
	rig.Same(t, fmt.Sprint(got), "[pool timeout]")
	rig.Same(t, rig.KindOf(s, c), "admitted")
}

// What Redis itself says, by a real one. (C111, C115, C117, C118)
func TestEveryRefusalOfRedisHasItsKind(t *testing.T) {
	r := rig.StartRedis(t, "--busy-reply-threshold", "1")
	s := rig.OpenRedis(t, r)
	r.Refuse(t, func(c limits.Check) string { return rig.KindOf(s, c) })
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 500, 366*86400e6, 0), "u", 1)
	as := func(user, password string) string {
		return rig.KindOf(rig.OpenRedisURL(t, "unix://"+user+":"+password+"@"+r.Socket, 10*time.Second), c)
	}
	for _, a := range rig.Accounts {
		rig.Same(t, a.Name+" "+as(a.Name, "pass"), a.Name+" "+a.Want)
	}
	rig.Same(t, as("enough", "wrong"), "noauth")
	r.MustDo(t, "config", "set", "requirepass", "pass")
	rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, r.URL(), 10*time.Second), c), "noauth")
	rig.Same(t, as("", "pass"), "admitted")
}

// Load says what is wrong, and Take does without it.
func TestARedisWithoutScriptLoadServes(t *testing.T) {
	r := rig.StartRedis(t, "--rename-command", "SCRIPT", "")
	s := rig.OpenRedisURL(t, r.URL(), 10*time.Second)
	if err := s.Load(context.Background()); err == nil || !strings.HasPrefix(err.Error(), "load script sliding_counter: ERR unknown command") {
		t.Errorf("Load: %v, want an error that names a script", err)
	}
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 2, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(s, c)+" "+rig.KindOf(s, c)+" "+rig.KindOf(s, c), "admitted admitted refused")
	rig.Same(t, fmt.Sprint(r.Calls(t, "eval"), r.Calls(t, "evalsha")), "1 3")
}

// Database 0 sends no SELECT, and nothing but HELLO is said beside the calls. (C123)
func TestAConnectionSaysNothingThatWasNotAsked(t *testing.T) {
	r := rig.StartRedis(t)
	rig.OpenRedis(t, r) // loads the scripts
	var said bytes.Buffer
	front := rig.InFrontOf(t, r, func(client, server net.Conn) {
		go io.Copy(client, server)
		io.Copy(io.MultiWriter(&said, server), client) // what is answered has been heard
	})
	s := rig.OpenRedisURL(t, front, 10*time.Second)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 9, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(s, c)+" "+rig.KindOf(s, c), "admitted admitted")
	s.Close()
	ask := strings.Join([]string{"*8", "$7", "evalsha", "$40", redisscripts.Named("fixed_window").SHA, "$1", "1", "$19", string(c.Key),
		"$1", "9", "$14", "31622400000000", "$1", "0", "$1", "1"}, "\r\n")
	rig.Same(t, fmt.Sprintf("%q", said.String()), fmt.Sprintf("%q", "*2\r\n$5\r\nhello\r\n$1\r\n2\r\n"+strings.Repeat(ask+"\r\n", 2)))
}
