package tests

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A flood is what so many clients got, each of whom asks ten times a second on a connection of its own,
// whatever the others wait for.
type flood struct {
	mu      sync.Mutex
	answers map[string]int // "503 deny"
	times   []time.Duration
}

// floodFor sends request, as it is, for a while; read makes a text of the answer. Every so often it calls
// during.
func floodFor(t *testing.T, clients int, lasts time.Duration, addr, request string, read func(*http.Response) string, during func()) *flood {
	t.Helper()
	f := &flood{answers: map[string]int{}}
	var asking sync.WaitGroup
	begin := time.Now()
	for i := range clients {
		asking.Go(func() {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			answers := bufio.NewReader(c)
			next := begin.Add(time.Duration(i) * 100 * time.Millisecond / time.Duration(clients))
			for ; next.Before(begin.Add(lasts)); next = next.Add(100 * time.Millisecond) {
				time.Sleep(time.Until(next)) // the rate is what is asked for
				sent := time.Now()
				io.WriteString(c, request)
				response, err := http.ReadResponse(answers, nil)
				if err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
				io.Copy(io.Discard, response.Body)
				f.add(read(response), time.Since(sent))
			}
		})
	}
	done := make(chan struct{})
	go func() { asking.Wait(); close(done) }()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-done:
			tick.Stop()
			return f
		case <-tick.C:
			during()
		}
	}
}

func (f *flood) add(answer string, took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[answer]++
	f.times = append(f.times, took)
}

// percentile is how long so many of a hundred answers took at most.
func percentile(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[len(times)*percent/100].Round(10 * time.Microsecond)
}

// A hull is the most that a process had of something while it was looked at.
type hull struct{ memoryMB, goroutines, sockets int }

func (h *hull) extend(o hull) {
	h.memoryMB, h.goroutines, h.sockets = max(h.memoryMB, o.memoryMB), max(h.goroutines, o.goroutines), max(h.sockets, o.sockets)
}

func (a *authzServer) hull(t testing.TB) hull {
	t.Helper()
	_, text := a.get(t, "/metrics")
	number := func(name string) (n float64) {
		_, after, _ := strings.Cut(text, "\n"+name+" ")
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Error(name, err)
		}
		return n
	}
	return hull{int(number("process_resident_memory_bytes")) >> 20, int(number("go_goroutines")), int(number("process_open_fds"))}
}

// hull is that of nginx's workers.
func (n *nginxServer) hull(t testing.TB) (h hull) {
	t.Helper()
	for _, pid := range n.workers(t) {
		text, err := os.ReadFile("/proc/" + pid + "/statm")
		if err != nil {
			t.Fatal(err)
		}
		var size, resident int
		fmt.Sscan(string(text), &size, &resident)
		h.memoryMB += resident * os.Getpagesize() >> 20
	}
	h.sockets = n.sockets(t)
	return h
}

// Under 5,000 requests a second, with Redis at its worst: everybody is answered by on_error and in time,
// and neither memory nor goroutines nor sockets grow with the requests that wait. (C107, C108, C109, C121)
func TestAFloodOverADeadRedisIsAnsweredInTimeAndCostsNoMemory(t *testing.T) {
	const clients, lasts, timeout = 500, 600 * time.Millisecond, 50 * time.Millisecond
	limits := `
		[limit.much]
		key = []
		algorithm = "token_bucket"
		rate = "1000000000/s"
		on_error = "deny"`
	at := address{port: freePort(t)}
	s := &scene{redis: startRedis(t, "--port", at.port)}
	s.way = startWay(t, "127.0.0.1:"+at.port)
	at.port = s.way.port
	service := startAuthz(t, "--limits="+limitsFile(t, limits), "--redis="+at.url(), fmt.Sprint("--redis-timeout=", timeout))
	pack := startPack(t, nil, at.options(timeout), siteConf{limits: limits, server: sayOK})
	s.doors = []*door{service.door(), pack.door(t)}
	floods := []func(during func()) *flood{
		func(during func()) *flood {
			return floodFor(t, clients, lasts, service.addr, "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n\r\n",
				func(r *http.Response) string {
					return r.Header.Get("X-Authz-Status") + " " + r.Header.Get("X-Authz-Degraded")
				}, during)
		},
		func(during func()) *flood {
			return floodFor(t, clients, lasts, pack.addr, "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
				func(r *http.Response) string { return fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Seen")) }, during)
		},
	}
	hulls := []func() hull{func() hull { return service.hull(t) }, func() hull { return pack.hull(t) }}
	var healthy [2]hull
	for _, f := range append([]fault{{name: "healthy"}}, floodFaults...) {
		if f.begin != nil {
			f.begin(t, s)
		}
		for i, d := range s.doors {
			var h hull
			got := floods[i](func() { h.extend(hulls[i]()) })
			n := len(got.times)
			t.Logf("%s, %s: %d answers, %.0f a second, p99 %v, %d MB, %d goroutines, %d sockets", f.name, d.name, n,
				float64(n)/lasts.Seconds(), percentile(got.times, 99), h.memoryMB, h.goroutines, h.sockets)
			if f.begin == nil {
				healthy[i] = h
			} else if got.answers["503 deny"] != n {
				t.Errorf("%s, %s: answers %v, want 503 deny for all", f.name, d.name, got.answers)
			}
			if half := percentile(got.times, 50); f.begin != nil && half > timeout+grace { // a busy machine delays some
				t.Errorf("%s, %s: half of the answers took %v, want %v", f.name, d.name, half, timeout)
			}
			most := hull{3*healthy[i].memoryMB + 64, 2*healthy[i].goroutines + 100, 2*healthy[i].sockets + clients}
			if h.memoryMB > most.memoryMB || h.goroutines > most.goroutines || h.sockets > most.sockets {
				t.Errorf("%s, %s: %+v, want no more than %+v", f.name, d.name, h, most)
			}
		}
		if f.begin != nil {
			f.end(t, s)
			s.awaitNormal(t, "/")
		}
	}
}

var floodFaults = []fault{
	wayFaults[0], // a refused port
	poisoned("black hole", "", "downstream", "timeout", `"timeout": 0`),
	{name: "stopped", begin: func(t *testing.T, s *scene) { s.redis.signal(t, syscall.SIGSTOP) },
		end: func(t *testing.T, s *scene) { s.redis.signal(t, syscall.SIGCONT) }},
	poisoned("200 ms of latency", "", "downstream", "latency", `"latency": 200`),
	poisoned("reset in mid-reply", "", "downstream", "limit_data", `"bytes": 5`),
}
