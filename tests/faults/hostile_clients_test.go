package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"authz/internal/store"
	"authz/limits"
	"authz/tests/rig"
)

const wellFormed = "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /a\r\n\r\n"

// Clients that connect and say nothing, that say a byte now and then, that ask and never read: each is let
// go after a few seconds, and meanwhile the others are answered at once.
func TestClientsThatWasteTimeWasteTheirOwn(t *testing.T) {
	t.Parallel() // it waits, most of the time
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow))
	ask := a.Checker()
	ask.Check(t, "GET /free", nil)
	before := a.Hull(t)
	var clients sync.WaitGroup
	open := func(n int, talk func(c net.Conn)) {
		for range n {
			c, err := rig.Dial(a.Addr)
			if err != nil {
				t.Fatal(err)
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			clients.Go(func() {
				defer c.Close()
				talk(c)
			})
		}
	}
	// each until authz closes
	open(100, func(c net.Conn) {
		if n, err := io.Copy(io.Discard, c); n > 0 || err != nil {
			t.Errorf("who has said nothing is told %d bytes, %v, want nothing", n, err)
		}
	})
	open(100, func(c net.Conn) {
		for _, b := range []byte(strings.Repeat("GET /nginx?", 1000)) {
			if _, err := c.Write([]byte{b}); err != nil {
				return
			}
			c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // until the next byte
			if _, err := c.Read(make([]byte, 1000)); err == nil {
				return // the 403 of who was too slow
			}
		}
		t.Error("a client may take as long as it likes for its headers")
	})
	open(3, func(c net.Conn) {
		c.(*net.TCPConn).SetReadBuffer(4096)
		for range 1_000_000 {
			if _, err := io.WriteString(c, wellFormed); err != nil {
				return
			}
		}
		t.Error("a client may leave as many answers unread as it likes")
	})
	gone := make(chan struct{})
	go func() { clients.Wait(); close(gone) }()
	for asked := 0; ; asked++ {
		began := time.Now()
		ask.Check(t, "GET /free", nil)
		if took := time.Since(began); took > rig.Grace {
			t.Errorf("an answer took %v while others wasted time", took)
		}
		select {
		case <-gone:
			rig.Await(t, "end of what they left", func() bool {
				h := a.Hull(t)
				return h.Goroutines <= before.Goroutines+20 && h.Sockets <= before.Sockets+20
			})
			return
		default:
		}
	}
}

// Headers of all sizes and shapes that anybody sends to bring a server down. Those that are within the 64 KB
// are a request like others, and what is larger is not read to its end.
func TestHeaderBombsAreAnsweredAndTakeNoMemory(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, `
		[limit.all]
		key       = ["ip", "header:X-API-Key", "cookie:c999", "query:q999"]
		missing   = "share"
		algorithm = "sliding_window"
		rate      = "10000/d"`))
	before := a.Hull(t)
	begun := strings.TrimSuffix(wellFormed, "\r\n")
	pairs := func(n int, format, separator string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return strings.Join(all, separator)
	}
	for name, bomb := range map[string]struct{ text, want string }{
		"10,000 headers":              {begun + strings.Repeat("a: b\r\n", 10_000) + "\r\n", "200"},
		"10,000 headers of one name":  {begun + strings.Repeat("X-API-Key: k\r\n", 4_500) + "\r\n", "200"},
		"10,000 cookies":              {begun + "Cookie: " + pairs(5_000, "c%d=v", "; ") + "\r\n\r\n", "200"},
		"5,000 hops":                  {begun + "X-Real-IP: " + pairs(5_000, "10.0.0.%d", ",") + "\r\n\r\n", "200"},
		"60 KB of colons as a client": {begun + "X-Real-IP: " + strings.Repeat(":", 60_000) + "\r\n\r\n", "200"},
		"a key of 60 KB":              {begun + "X-API-Key: " + strings.Repeat("k", 60_000) + "\r\n\r\n", "200"},
		"a query of 60 KB":            {strings.Replace(begun, "/a", "/a?"+pairs(6_000, "q%d=%%41", "&"), 1) + "\r\n", "200"},
		"a path of 60 KB":             {strings.Replace(begun, "/a", strings.Repeat("/..%2f/x/%2e", 5_000), 1) + "\r\n", "403"},
		"a name of 60 KB":             {begun + strings.Repeat("n", 60_000) + ": v\r\n\r\n", "200"},
		"2 MB of headers":             {begun + strings.Repeat("a: b\r\n", 350_000) + "\r\n", "403"},
		"a header of 2 MB":            {begun + "X-API-Key: " + strings.Repeat("k", 2<<20) + "\r\n\r\n", "403"},
		"a line without an end":       {"GET /" + strings.Repeat("x", 2<<20), "403"},
		"empty lines without an end":  {strings.Repeat("\r\n", 1<<20), "closed"}, // no request has begun
	} {
		var bombers sync.WaitGroup
		for range 20 {
			bombers.Go(func() {
				c, err := rig.Dial(a.Addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(time.Minute))
				go io.WriteString(c, bomb.text) // authz may close before it has read all
				got := "closed"
				if response, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
					got = response.Header.Get("X-Authz-Status")
				}
				rig.Same(t, name+" "+got, name+" "+bomb.want)
			})
		}
		bombers.Wait()
	}
	if h := a.Hull(t); h.MemoryMB > 3*before.MemoryMB+64 {
		t.Errorf("%d MB after the bombs, %d before", h.MemoryMB, before.MemoryMB)
	}
	a.Checker().Check(t, "GET /a", nil)
}

// C033, C056: who is no trusted proxy cannot say who a request is from, or what it is.
func TestIdentityHeadersOfAStrangerChargeNobody(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow), "--redis="+r.URL(), "--trusted-proxies=10.0.0.0/8")
	names := []string{"X-Original-Method", "X-Original-URI", "X-Original-URL", "X-Original-Host", "X-Forwarded-For", "X-Forwarded-Host",
		"X-Forwarded-Proto", "X-Real-IP", "X-Authz-Zone", "X-Authz-Status", "x-original-method", "X-REAL-IP"}
	for i, name := range names {
		text := "GET /nginx HTTP/1.1\r\nHost: a\r\n"
		for _, name := range names[:i+1] {
			text += name + ": /a\r\n"
		}
		c, err := rig.Dial(a.Addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text+"\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || response.StatusCode != 403 || response.Header.Get("X-Authz-Status") != "403" {
			t.Errorf("with %s: %v, %v, want 403", name, response, err)
		}
		c.Close()
	}
	rig.Same(t, a.Metrics(t, "authz_ignored_headers_total"), fmt.Sprintf("authz_ignored_headers_total %d\n", len(names)*(len(names)+1)/2))
	if keys := r.Keys(t.Context(), "*").Val(); len(keys) > 0 {
		t.Errorf("charged: %v, want nobody", keys)
	}
}

// Ten million callers who never come again, or KEYS of them, in the room of a million: the in-memory store
// does not grow, and goes on deciding. docs/reliability.md has the numbers of a run with ten million.
func TestCallersWithoutNumberFillTheMemoryStoreAndNoMore(t *testing.T) {
	keys := envInt(t, "KEYS", 20_000)
	room := keys / 10
	for _, algorithm := range rig.Algorithms {
		m := store.NewMemory(room)
		l := rig.NewLimit(t, algorithm, algorithm, 5, 86400e6, 5)
		before, began := heapMB(), time.Now()
		var results []store.Result
		for i := range keys {
			c := rig.Check(l, fmt.Sprint("caller ", i), 1)
			results, _ = m.Take(t.Context(), 0, []limits.Check{c}, false, results[:0])
			if !results[0].Allowed {
				t.Fatalf("%s: caller %d is refused the first time", algorithm, i)
			}
		}
		took, grown := time.Since(began), heapMB()-before
		t.Logf("%s: %d callers in the room of %d take %d MB and %v each", algorithm, keys, room, grown, took/time.Duration(keys))
		if n := m.Len(); n > room {
			t.Errorf("%s: %d buckets, want %d at most", algorithm, n, room)
		}
		if most := room*400>>20 + 8; grown > most {
			t.Errorf("%s: %d MB, want %d at most", algorithm, grown, most)
		}
	}
}

func heapMB() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc >> 20)
}
