package prove

import (
	"context"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
)

// The headers are the answer: a body that is huge or endless is not waited for, and not kept.
func TestABodyIsNeverReadWhole(t *testing.T) {
	t.Parallel()
	const most = 64 << 20 // more than a connection holds on its way
	var whole atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/slow":
			w.Write([]byte("and then"))
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		case "/announced":
			w.Header().Set("Content-Length", "100000000000")
		}
		block := make([]byte, 1<<20)
		for range most / len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
		whole.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(site.Close)
	for _, path := range []string{"/announced", "/chunked", "/slow"} {
		p := prove(t, "--url="+site.URL+path, "--limit=none", "--algorithm=token_bucket", "--rate=2/h", "--for=1s", "--requests=6")
		if got := slices.Collect(maps.Keys(p.Answers)); !slices.Equal(got, []string{"200"}) {
			t.Errorf("%s: %v, want 200 alone", path, p.Answers)
		}
	}
	if n := whole.Load(); n != 0 {
		t.Errorf("%d bodies of %d bytes were read whole", n, most)
	}
}

// A body that is short does not cost a connection.
func TestConnectionsAreUsedAgain(t *testing.T) {
	t.Parallel()
	var conns atomic.Int64
	site := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte("short, "))
		if r.URL.Path == "/chunked" {
			http.NewResponseController(w).Flush()
		}
		w.Write([]byte("and over"))
	}))
	site.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { conns.Add(1); return ctx }
	site.Start()
	t.Cleanup(site.Close)
	for _, path := range []string{"/announced", "/chunked"} {
		conns.Store(0)
		p := prove(t, "--url="+site.URL+path, "--limit=none", "--algorithm=fixed_window", "--rate=100/h", "--for=1s", "--requests=400")
		if n := conns.Load(); p.Answers["200"] < 200 || n > 150 {
			t.Errorf("%s: %v over %d connections, want 200 or more over 150 at most", path, p.Answers, n)
		}
	}
}
