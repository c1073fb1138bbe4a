package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"authz/limits"
	"authz/store"
)

// serviceFor is a service with these limits on an in-memory store.
func serviceFor(t testing.TB, toml string) *service {
	t.Helper()
	s := newService(slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.store = store.NewMemory(10_000)
	s.local = store.NewMemory(10_000)
	trusted, err := limits.ParseTrusted([]string{"127.0.0.0/8", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s.peers = peers{trusted: trusted, unix: true}
	s.style, s.heldMax = headerStyle{ietf: true}, 10_000
	r := &reloader{service: s, prefix: "authz", paths: []string{writeFile(t, "limits.toml", toml)}, log: s.log}
	if err := r.load(); err != nil {
		t.Fatal(err)
	}
	return s
}

func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// asked is a request as the server hands it to the handler; its lines are joined by CRLF.
func asked(t testing.TB, peer net.Addr, lines ...string) *fasthttp.RequestCtx {
	t.Helper()
	var req fasthttp.Request
	text := strings.Join(lines, "\r\n") + "\r\n\r\n"
	if err := req.Header.Read(bufio.NewReader(strings.NewReader(text))); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	ctx := new(fasthttp.RequestCtx)
	ctx.Init2(nil, silent{}, false)
	ctx.Init(&req, peer, silent{})
	return ctx
}

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4000}

func BenchmarkACheck(b *testing.B) {
	s := serviceFor(b, `
		[limit.api]
		match     = { path = "/api/**" }
		key       = ["ip", "header:X-API-Key"]
		missing   = "ip"
		algorithm = "token_bucket"
		rate      = "1000000/s"
		burst     = 1000000`)
	ctx := asked(b, loopback, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /api/items?id=7",
		"X-Original-Host: example.com", "X-Real-IP: 203.0.113.9", "X-API-Key: k1", "X-API-Key: k2")
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		s.handle(ctx)
	}
	if got := string(ctx.Response.Header.Peek("X-Authz-Limit")); got != "api" {
		b.Errorf("limit %q decided, want api", got)
	}
}
