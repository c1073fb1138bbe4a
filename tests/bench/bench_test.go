package main

import (
	"encoding/xml"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnAnswerIsReadWhenAllOfItIsThere(t *testing.T) {
	check := func(text string, wantStatus, wantLength int) {
		t.Helper()
		if status, length := readAnswer([]byte(text)); status != wantStatus || length != wantLength {
			t.Errorf("%q: status %d, length %d, want %d, %d", text, status, length, wantStatus, wantLength)
		}
	}
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	check(ok, 200, len(ok))
	check(ok[:len(ok)-1], 0, 0)
	check("", 0, 0)
	check(strings.Replace(ok, ": 0", ": 3", 1)+"ab", 0, 0)
	check(strings.Replace(ok, ": 0", ": 3", 1)+"abc", 200, len(ok)+3)
	check(strings.Replace(ok, "200 OK", "403 Forbidden", 1), 403, len(ok)+7)
	check("HTTP/1.1 200 OK\r\n\r\n", 0, -1) // no length
	check("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 0, -1)
	check("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", 0, -1)
}

func TestEveryClientIsAskedForBeforeOneIsAgain(t *testing.T) {
	for _, keys := range []int{1, 1000, 10_000, 1_000_000} {
		seen := map[string]bool{}
		for i := range keys {
			seen[clientAddress(i*stride%keys)] = true
		}
		if len(seen) != keys {
			t.Errorf("%d clients of %d", len(seen), keys)
		}
	}
	if got, want := clientAddress(123_456), "10.112.134.156"; got != want {
		t.Errorf("client 123,456 is %s, want %s", got, want)
	}
}

func TestTheTicksOfAProcessWhoseNameHasSpaces(t *testing.T) {
	n, err := ticksOf("7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 55 11 0 0 20 0 1 0 100 1000 10")
	if n != 66 || err != nil {
		t.Errorf("%d ticks, error %v, want 66", n, err)
	}
	if _, err := ticksOf("7 (a) S"); err == nil {
		t.Error("a line that is cut short has ticks")
	}
}

// asked starts a server that closes a connection at every tenth request, and counts the others.
func asked(t *testing.T, answered *atomic.Int64) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1)%10 == 0 {
			panic(http.ErrAbortHandler)
		}
		answered.Add(1)
		io.WriteString(w, r.Header.Get("X-Real-IP"))
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.Addr().String()
}

func TestEveryRequestIsCounted(t *testing.T) {
	for what, perSecond := range map[string]float64{"a closed loop": 0, "an open loop": 2000} {
		var answered atomic.Int64
		l, err := dial(asked(t, &answered), question{check, http.StatusOK, 100}, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer l.close()
		for range 2 { // on the same connections
			before := answered.Load()
			out, err := l.run(100*time.Millisecond, perSecond, 100)
			if err != nil {
				t.Fatal(err)
			}
			if got := answered.Load() - before; int64(out.answers) != got || got < 90 {
				t.Errorf("%s: %d answers, the server gave %d, want 90 or more", what, out.answers, got)
			}
			// The connection that breaks may be told at the next request on it.
			if out.wrong*12 < out.answers || out.wrong*7 > out.answers {
				t.Errorf("%s: %d requests without an answer beside %d answers, want about one in ten", what, out.wrong, out.answers)
			}
			if len(out.latency) != out.answers+out.wrong {
				t.Errorf("%s: %d latencies of %d", what, len(out.latency), out.answers+out.wrong)
			}
			if sent := int(perSecond / 10); perSecond > 0 && out.answers+out.wrong != sent {
				t.Errorf("%s: %d requests, want %d", what, out.answers+out.wrong, sent)
			}
		}
	}
}

func TestAServerThatNeverAnswersEndsTheRun(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	load, err := dial(l.Addr().String(), question{check, http.StatusOK, 1}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer load.close()
	out, err := load.run(50*time.Millisecond, 100, 0)
	if err != nil || out.answers != 0 || out.wrong != 5 {
		t.Errorf("%d answers, %d wrong, error %v, want 0, 5 and none", out.answers, out.wrong, err)
	}
	if p := percentile(out.latency, 50); p < patience {
		t.Errorf("p50 is %v, want %v or more: they were waited for that long", p, patience)
	}
}

func TestPercentiles(t *testing.T) {
	var sorted []time.Duration
	for i := range 200 {
		sorted = append(sorted, time.Duration(i+1))
	}
	if p50, p99 := percentile(sorted, 50), percentile(sorted, 99); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %d, p99 %d, want 100, 198", p50, p99)
	}
	if p := percentile(sorted[:1], 99); p != 1 {
		t.Errorf("p99 of one is %d, want it", p)
	}
}

// measured is a report in which authz does twice what one EVALSHA does, and half of the floor.
func measured() *report {
	s := func(perSecond ...float64) (all []sample) {
		for _, v := range perSecond {
			all = append(all, sample{perSecond: v, p99: 1000 / v, cpu: map[string]float64{"service": 100 / v, "Redis": 5, "load": 7}})
		}
		return all
	}
	rows := map[string]samples{
		"redis":  {"floor": s(40, 50, 60), "authz": s(20, 30, 25), "plain": s(10, 14, 12)},
		"rivals": {"floor": s(40, 50, 60), "authz": s(20, 30, 25), "ulule": s(10, 20, 12), "redis_rate": s(10, 10, 10)},
		"half":   {"authz": s(20), "plain": s(10)},
	}
	return &report{rows: rowsFor(options{}), samples: rows, failed: map[string]error{}, options: options{rounds: 3}}
}

func TestATargetIsMetByTheMedians(t *testing.T) {
	found := map[string]finding{}
	for i, f := range measured().findings() {
		found[targets[i].about+", "+targets[i].metric.name] = f
	}
	check := func(what, shown string, met bool) {
		t.Helper()
		if f := found[what]; f.shown() != shown || f.met() != met {
			t.Errorf("%s: %s, met is %v, want %s, %v", what, f.shown(), f.met(), shown, met)
		}
	}
	check(alone+", requests a second", "0.50 (0.42–0.60)", false)
	check(alone+", server CPU a request", "1.29 (1.19–1.35)", true)
	check("under load, token bucket, Redis CPU a check", "5 µs", true)
	check("against libraries behind the same handler, requests a second", "2.08 (1.50–2.08)", true)
	check("half of the rate that saturates one EVALSHA a request, p99", "0.50", true)
	check(nginxUnix+", requests a second", "-", false)
}

func TestThePictureIsXML(t *testing.T) {
	decoder := xml.NewDecoder(strings.NewReader(svg(measured().charts())))
	rects := 0
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "rect" {
			rects++
		}
	}
	if rects != 1+6 {
		t.Errorf("%d rectangles, want the page and 6 bars", rects)
	}
}

func TestTheTablesAreReplaced(t *testing.T) {
	got, err := between("a\n"+beginMark+"old\n"+endMark+"b\n", "new")
	if want := "a\n" + beginMark + "\nnew\n" + endMark + "b\n"; got != want || err != nil {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
	if _, err := between("a\n"+endMark+beginMark, "new"); err == nil {
		t.Error("the marks in the wrong order are no error")
	}
}
