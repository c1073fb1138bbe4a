package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
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
				if err := f.ask(c, answers, request, read); err != nil {
					t.Errorf("no answer: %v", err)
					return
				}
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

// ask sends a request and awaits its answer.
func (f *flood) ask(c net.Conn, answers *bufio.Reader, request string, read func(*http.Response) string) error {
	sent := time.Now()
	io.WriteString(c, request)
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		return err
	}
	io.Copy(io.Discard, response.Body)
	took := time.Since(sent)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[read(response)]++
	f.times = append(f.times, took)
	return nil
}

// percentile is how long so many of a hundred answers took at most.
func percentile(times []time.Duration, percent int) time.Duration {
	slices.Sort(times)
	return times[len(times)*percent/100].Round(10 * time.Microsecond)
}

const floodTimeout, floodClients, floodLasts = 50 * time.Millisecond, 500, 600 * time.Millisecond

// A floodDoor is a door, and how to flood it.
type floodDoor struct {
	*rig.Door
	addr, request string
	read          func(*http.Response) string
	hull          func() rig.Hull
	healthy       rig.Hull
}

func startFlood(t *testing.T) (s *rig.Scene, doors []*floodDoor, service *rig.AuthzServer) {
	t.Helper()
	limits := `
		[limit.much]
		key = []
		algorithm = "token_bucket"
		rate = "1000000000/s"
		on_error = "deny"`
	at := address{port: rig.FreePort(t)}
	s = &rig.Scene{Redis: rig.StartRedis(t, "--port", at.port)}
	s.Way = rig.StartWay(t, "127.0.0.1:"+at.port)
	at.port = s.Way.Port
	service = rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--redis="+at.url(), fmt.Sprint("--redis-timeout=", floodTimeout))
	pack := rig.StartPack(t, nil, at.options(floodTimeout), rig.SiteConf{Limits: limits, Server: rig.SayOK})
	s.Doors = []*rig.Door{service.Door(), pack.Door(t)}
	doors = []*floodDoor{
		{Door: s.Doors[0], addr: service.Addr, request: "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /\r\n\r\n",
			read: func(r *http.Response) string {
				return r.Header.Get("X-Authz-Status") + " " + r.Header.Get("X-Authz-Degraded")
			},
			hull: func() rig.Hull { return service.Hull(t) }},
		{Door: s.Doors[1], addr: pack.Addr, request: "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
			read: func(r *http.Response) string { return fmt.Sprint(r.StatusCode, " ", r.Header.Get("X-Seen")) },
			hull: func() rig.Hull { return pack.Hull(t) }},
	}
	return s, doors, service
}

// Under 5,000 requests a second, with Redis at its worst: everybody is answered by on_error, and neither memory
// nor goroutines nor sockets grow with the requests that wait. Under a fifth of that, which leaves the
// machine room to measure it, answers are in time. (C107, C108, C109, C121)
func TestAFloodOverADeadRedisIsAnsweredInTimeAndCostsNoMemory(t *testing.T) {
	s, doors, service := startFlood(t)
	for _, d := range doors {
		_, d.healthy = d.flood(t, "healthy", floodClients)
	}
	for _, f := range floodFaults {
		f.under(t, s, func() {
			for _, d := range doors {
				_, h := d.flood(t, f.name, floodClients)
				most := rig.Hull{MemoryMB: 3*d.healthy.MemoryMB + 64, Goroutines: 2*d.healthy.Goroutines + 100, Sockets: 2*d.healthy.Sockets + floodClients}
				if h.MemoryMB > most.MemoryMB || h.Goroutines > most.Goroutines || h.Sockets > most.Sockets {
					t.Errorf("%s, %s: %+v, want no more than %+v", f.name, d.Name, h, most)
				}
			}
		})
		f.under(t, s, func() { // anew: the breaker is closed in the beginning
			for _, d := range doors {
				got, _ := d.flood(t, f.name, floodClients/5)
				holds(t, f.name+", "+d.Name+": p99", percentile(got.times, 99), floodTimeout+10*time.Millisecond)
			}
			doors[0].askOneByOne(t, f.name, service)
		})
	}
}

// under does something while the fault lasts, and returns when all is well again.
func (f fault) under(t *testing.T, s *rig.Scene, do func()) {
	t.Helper()
	f.begin(t, s)
	do()
	f.end(t, s)
	s.AwaitNormal(t, "/")
}

// flood is what so many clients got, ten times a second each, and the most that the door had meanwhile.
func (d *floodDoor) flood(t *testing.T, fault string, clients int) (got *flood, h rig.Hull) {
	t.Helper()
	got = floodFor(t, clients, floodLasts, d.addr, d.request, d.read, func() { h.Extend(d.hull()) })
	n := len(got.times)
	t.Logf("%s, %s: %d answers, %.0f a second, p99 %v, %d MB, %d goroutines, %d sockets", fault, d.Name, n,
		float64(n)/floodLasts.Seconds(), percentile(got.times, 99), h.MemoryMB, h.Goroutines, h.Sockets)
	if fault != "healthy" && got.answers["503 deny"] != n {
		t.Errorf("%s, %s: answers %v, want 503 deny for all", fault, d.Name, got.answers)
	}
	if half := percentile(got.times, 50); half > floodTimeout+rig.Grace { // a busy machine delays some
		t.Errorf("%s, %s: half of the answers took %v, want %v", fault, d.Name, half, floodTimeout)
	}
	return got, h
}

// askOneByOne asks a service whose breaker is open, a thousand times a second on one connection: no request
// waits for another, and what is left is what the service takes.
func (d *floodDoor) askOneByOne(t *testing.T, name string, service *rig.AuthzServer) {
	t.Helper()
	c, err := net.Dial("tcp", d.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const kind, n = `authz_store_errors_total{kind="breaker"}`, 500
	before, one := service.Counted(t, kind), &flood{answers: map[string]int{}}
	answers, next := bufio.NewReader(c), time.Now()
	for range n {
		next = next.Add(time.Millisecond)
		time.Sleep(time.Until(next)) // the rate is what is asked for
		if err := one.ask(c, answers, d.request, d.read); err != nil {
			t.Fatalf("no answer: %v", err)
		}
	}
	if got := service.Counted(t, kind) - before; got != n || one.answers["503 deny"] != n {
		t.Errorf("%s: answers %v, and %d of them by the breaker, want 503 deny for %d by it", name, one.answers, got, n)
	}
	for _, percent := range []int{50, 99} {
		holds(t, fmt.Sprintf("%s, the breaker is open: p%d of %d, one by one", name, percent, n), percentile(one.times, percent), time.Millisecond)
	}
}

// holds prints a time, and what it may be at most. That fails where AUTHZ_TIMES is set, as `make soak` does: on a
// machine that is busy with other tests a time says little.
func holds(t *testing.T, what string, took, most time.Duration) {
	t.Helper()
	t.Logf("%s: %v, want %v at most", what, took, most)
	if os.Getenv("AUTHZ_TIMES") != "" && took > most {
		t.Errorf("%s: %v, want %v at most", what, took, most)
	}
}

var floodFaults = []fault{
	wayFaults[0], // a refused port
	poisoned("black hole", "", "downstream", "timeout", `"timeout": 0`),
	{name: "stopped", begin: func(t *testing.T, s *rig.Scene) { s.Redis.Signal(t, syscall.SIGSTOP) },
		end: func(t *testing.T, s *rig.Scene) { s.Redis.Signal(t, syscall.SIGCONT) }},
	poisoned("200 ms of latency", "", "downstream", "latency", `"latency": 200`),
	// Anew: a connection that is there may have a few bytes left, and a probe on it an answer.
	{name: "reset in mid-reply", begin: func(t *testing.T, s *rig.Scene) {
		s.Way.Close()
		s.Way.Open(t, rig.Toxic("downstream", "limit_data", `"bytes": 5`))
	}, end: func(t *testing.T, s *rig.Scene) { s.Way.Close(); s.Way.Open(t) }},
}
