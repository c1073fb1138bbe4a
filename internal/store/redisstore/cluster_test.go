package redisstore

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/internal/store"
	"authz/internal/testkit"
	"authz/limits"
)

// C124, and what the specification of Redis Cluster says of braces.
func TestASlotIsThatOfTheHashTag(t *testing.T) {
	is := func(key string, want int) {
		t.Helper()
		if got := slotOf([]byte(key)); got != want {
			t.Errorf("%s: slot %d, want %d", key, got, want)
		}
	}
	is("", 0)
	is("123456789", 0x31c3)
	is("rl:v1:login|203.0.113.9:tb", 2745)
	is("rl:v1:login|203.0.113.9:ts", 2217)
	is("rl:v1:{login|203.0.113.9}:tb", 15359)
	is("rl:v1:{login|203.0.113.9}:ts", 15359)
	tag := slotOf([]byte("bar"))
	is("foo{bar}{zap}", tag)
	if slotOf([]byte("foo{}{bar}")) == tag {
		t.Error("foo{}{bar}: the slot of bar, want that of the whole: its first tag is empty")
	}
	is("foo{{bar}}zap", slotOf([]byte("{bar")))
}

func TestAnAddressMayLeaveOutWhatIsTheSame(t *testing.T) {
	is := func(addr, want string) {
		t.Helper()
		from := &Server{client: redis.NewClient(&redis.Options{Addr: "10.0.0.1:7000"})}
		defer from.Close()
		if got := address(addr, from); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	is("10.0.0.2:7001", "10.0.0.2:7001")
	is(":7001", "10.0.0.1:7001")
	is("10.0.0.2:0", "10.0.0.2:7000")
	is("redis-2.example.com:7001", "redis-2.example.com:7001")
	is("[::1]:7001", "[::1]:7001")
	is("::1:7001", "[::1]:7001") // as MOVED has it
}

// A call of one slot is one EVALSHA. Another is divided: by slot, and whoever goes apart alone.
func TestACallIsDividedBySlot(t *testing.T) {
	r := newServer(&redis.Options{Addr: "nowhere"}, 1, nil)
	defer r.Close()
	divided := func(want string, members ...pending) {
		t.Helper()
		c := new(call)
		c.begin(7)
		for i := range members {
			members[i].text = []byte{'a' + byte(i)}
			c.add(&members[i])
		}
		got := fmt.Sprint(c.mixed)
		if c.mixed {
			for _, one := range r.divide(c) {
				got += " "
				for _, p := range one.members {
					got += string(p.text)
				}
			}
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	divided("false", pending{slot: 3})
	divided("false", pending{slot: 3}, pending{slot: 3})
	divided("false", pending{slot: 3, apart: true})
	divided("true a", pending{slot: 3, apart: true, asking: true})
	divided("true ac b", pending{slot: 3}, pending{slot: 4}, pending{slot: 3})
	divided("true bd ac e", pending{slot: 3}, pending{slot: 1}, pending{slot: 3}, pending{slot: 1}, pending{slot: 9})
	divided("true a b c", pending{slot: 3}, pending{slot: 3, apart: true}, pending{slot: 3})
	divided("true a b", pending{slot: 3, apart: true}, pending{slot: 3})
}

func TestPartsKeepTheOrderOfTheChecks(t *testing.T) {
	l := testkit.LimitOf(limits.FixedWindow)
	checks := []limits.Check{testkit.CheckOf(l, "{a}1"), testkit.CheckOf(l, "{b}"), testkit.CheckOf(l, "{a}2"), testkit.CheckOf(l, "{c}"), testkit.CheckOf(l, "{b}2")}
	is := func(parts []*part, want string) {
		t.Helper()
		got := ""
		for _, p := range parts {
			got += fmt.Sprint(p.places, " ")
		}
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	is(bySlot(checks), "[0 2] [1 4] [3] ")
	is(oneByOne(checks), "[0] [1] [2] [3] [4] ")
}

func TestNobodyIsHeldForARequestThatIsRefused(t *testing.T) {
	parts := []*part{{results: []store.Result{{Allowed: true, WaitUS: 5}, {WaitUS: 7}}}, {results: []store.Result{{Allowed: true, WaitUS: 9}}}}
	noHold(parts)
	if got := fmt.Sprint(parts[0].results, parts[1].results); got != "[{true 0 0 0 false} {false 0 7 0 false}] [{true 0 0 0 false}]" {
		t.Errorf("got %s, want no wait but that of the refusal", got)
	}
}

// silent is a server that takes connections and says nothing.
func silent(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// Masters that are known are no answer to the question who has a slot: its breaker stays open until
// somebody answers it.
func TestAProbeOfAClusterWaitsForALook(t *testing.T) {
	r, err := Open(Options{URL: "redis://" + silent(t) + "?cluster=true", Timeout: 10 * time.Millisecond, Turned: func(string, error) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := r.(*cluster)
	c.set([]redis.ClusterSlot{{End: 9, Nodes: []redis.ClusterNode{{Addr: c.site.addrs[0]}}}}, c.node(c.site.addrs[0]))
	if servers, err := r.Servers(t.Context()); len(servers) != 1 || err != nil {
		t.Errorf("%d servers, %v, want one that is known", len(servers), err)
	}
	if _, err := c.owner(10, time.Now()); Kind(err) != "timeout" {
		t.Errorf("the owner of a slot that nobody has: %v, want a timeout", err)
	}
	if err := c.breaker.ping(t.Context()); reached(err) {
		t.Errorf("the probe says %v, want that nobody answers", err)
	}
}

// lingering is a connection that takes its time to close.
type lingering struct {
	net.Conn
	closing, closed chan struct{}
}

func (l lingering) Close() error {
	l.closing <- struct{}{}
	<-l.closed
	return l.Conn.Close()
}

func TestAConnectionThatClosesSlowlyHoldsUpNobody(t *testing.T) {
	r, err := Open(Options{URL: "redis://" + silent(t) + "?cluster=true", Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	c, made := r.(*cluster), lingering{closing: make(chan struct{}, 9), closed: make(chan struct{})}
	dialled := make(chan struct{})
	c.site.client.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer close(dialled)
		made.Conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return made, err
	}
	var all sync.WaitGroup
	all.Go(func() { c.node(c.site.addrs[0]).Ping(t.Context()) })
	<-dialled
	all.Go(func() { r.Close() })
	<-made.closing
	if c.mu.TryLock() {
		c.mu.Unlock()
	} else {
		t.Error("whoever asks for a node waits for the connection")
	}
	close(made.closed)
	all.Wait()
}

// What Redis quotes of a command that it does not know may be the password.
func TestNoErrorOfGetQuotesAPassword(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, strings.Repeat("-ERR unknown command `HELLO`, with args beginning with: `2` `auth` `default` `s3cr3t` \r\n", 9))
		}
	}()
	for _, query := range []string{"", "?cluster=true"} {
		r, err := Open(Options{URL: "redis://" + l.Addr().String() + query, Password: "s3cr3t", Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if c, ok := r.(*cluster); ok { // it has found its nodes
			c.set([]redis.ClusterSlot{{End: slotCount - 1, Nodes: []redis.ClusterNode{{Addr: c.site.addrs[0]}}}}, c.node(c.site.addrs[0]))
		}
		if _, err := Get(t.Context(), r, "authz:v1:epoch"); err == nil || strings.Contains(err.Error(), "s3cr3t") || Kind(err) == "" {
			t.Errorf("%q: Get says %v", query, err)
		}
	}
}
