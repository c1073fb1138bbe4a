package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"authz/internal/service"
	"authz/internal/store/redisstore"
	"authz/internal/testkit"
)

func TestTheAdminListenerTellsTheProcessFromTheService(t *testing.T) {
	s := running(t, "[limit.a]\nkey = []\nalgorithm = \"token_bucket\"\nrate = \"3/d\"\n", silentRedis(t))
	admin := New(s, "authz", "", false).Server()
	check := func(method, path string, wantStatus int, wantBody string) {
		t.Helper()
		w := httptest.NewRecorder()
		admin.Handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		if w.Code != wantStatus || w.Body.String() != wantBody {
			t.Errorf("%s %s: %d %q, want %d %q", method, path, w.Code, w.Body, wantStatus, wantBody)
		}
	}
	check("GET", "/healthz", 200, "ok\n")
	check("HEAD", "/healthz", 200, "ok\n") // net/http leaves the body out on the wire
	// a store that is down is no reason to send nobody here
	check("GET", "/readyz", 200, "serving\nstore: redis, no answer: timeout\n")
	check("POST", "/readyz", 405, "Method Not Allowed\n")
	check("GET", "/nginx", 404, "404 page not found\n")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(stopped, func() {}, nil); err != nil {
		t.Fatal(err)
	}
	check("GET", "/healthz", 200, "ok\n")
	check("GET", "/readyz", 503, "draining\n")
}

// silentRedis is the URL of one that never answers.
func silentRedis(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return "redis://" + l.Addr().String()
}

// running is a service as serve makes it, of limits in a file; it counts in memory if redis is "".
func running(t *testing.T, toml, redis string) *service.Service {
	t.Helper()
	trusted, err := service.NewPeers([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := service.New(service.Options{Log: slog.New(slog.DiscardHandler), LostLines: func() int64 { return 0 },
		Limits: []string{testkit.WriteFile(t, "limits.toml", toml)}, Prefix: "authz", Peers: trusted, IETF: true, HeldMax: 10, RefusalsMax: 100,
		MemoryBuckets: 100, Redis: redisstore.Options{URL: redis, Timeout: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
