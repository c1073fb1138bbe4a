package service

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/valyala/fasthttp"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/internal/route"
	"authz/internal/store"
	"authz/internal/testkit"
	"authz/limits"
)

// serviceFor is a service with these limits on an in-memory store.
func serviceFor(t testing.TB, toml string) *Service {
	t.Helper()
	s := newService(slog.New(slog.NewTextHandler(io.Discard, nil)))
	s.store = store.NewMemory(10_000)
	s.local = store.NewMemory(10_000)
	trusted, err := limits.ParsePrefixes([]string{"127.0.0.0/8", "10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s.peers = Peers{trusted: trusted, Unix: true}
	s.style, s.heldMax = headerStyle{ietf: true}, 10_000
	r := &reloader{service: s, prefix: "authz", paths: []string{testkit.WriteFile(t, "limits.toml", toml)}, log: s.Log}
	if err := r.load(); err != nil {
		t.Fatal(err)
	}
	return s
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

const tokens = `
	[limit.api]
	match     = { path = "/api/**" }
	key       = ["ip", "header:X-API-Key"]
	missing   = "ip"
	algorithm = "token_bucket"
	rate      = "1000000/s"
	burst     = 1000000`

var askAPI = []string{"GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /api/items?id=7",
	"X-Original-Host: example.com", "X-Real-IP: 203.0.113.9", "X-API-Key: k1", "X-API-Key: k2", "Cookie: a=1", "Cookie: b=2"}

func BenchmarkACheck(b *testing.B) {
	s := serviceFor(b, tokens)
	ctx := asked(b, loopback, askAPI...)
	b.ReportAllocs()
	for b.Loop() {
		ctx.Response.Reset()
		s.handle(ctx)
	}
}

// The race detector makes sync.Pool forget at random: the memory of a request is given here.
func TestACheckDoesNotAllocate(t *testing.T) {
	s := serviceFor(t, tokens+"\n[deny.env]\nmatch = { path = \"/.env\" }\n[allow.probes]\nmatch = { path = \"/healthz\" }\n")
	check := func(want decision.Verdict, lines ...string) {
		t.Helper()
		ctx := asked(t, loopback, lines...)
		q := new(request)
		var d decision.Decision
		n := testing.AllocsPerRun(100, func() {
			ctx.Response.Reset()
			d = s.answer(ctx, route.IndexOf(ctx.Request.Header.RequestURI()), q)
			q.text = s.style.set(&ctx.Response.Header, &d, q.text)
		})
		if n != 0 || d.Verdict != want {
			t.Errorf("%v: %v allocations for %+v, want none for %v", lines, n, d, want)
		}
	}
	check(decision.Admitted, askAPI...)
	check(decision.Admitted, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /healthz")
	check(decision.Admitted, "GET /ingress?zone=a+b HTTP/1.1", "Host: authz", "X-Original-Method: GET",
		"X-Original-URL: https://h:80/api/x?y", "X-Real-IP: 203.0.113.9")
	check(decision.Blocked, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /.env")
}

// answers asks and returns the whole answer but what is the same in every one.
func answers(t testing.TB, s *Service, lines ...string) string {
	t.Helper()
	ctx := asked(t, loopback, append([]string{"GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET"}, lines...)...)
	s.handle(ctx)
	text := strings.ReplaceAll(ctx.Response.Header.String(), "\r\n", "\n")
	_, headers, ok := strings.Cut(text, "Cache-Control: no-store\n")
	if !ok || !strings.Contains(text, "Content-Length: 0\n") {
		t.Errorf("%s\nhas no Cache-Control: no-store or no Content-Length: 0", text)
	}
	status, _, _ := strings.Cut(strings.TrimPrefix(text, "HTTP/1.1 "), "\n")
	return status + "\n" + strings.TrimSuffix(headers, "\n\n")
}

func TestVerdictsThatNoStoreIsAskedFor(t *testing.T) {
	s := serviceFor(t, `
		[allow.probes]
		match = { path = "/healthz" }
		[deny.scanners]
		match = { path = "/**/.env" }
		[limit.key]
		match     = { path = "/v1/**" }
		key       = ["header:X-API-Key"]
		missing   = "deny"
		algorithm = "fixed_window"
		rate      = "5/s"
		[limit.off]
		match     = { path = "/off" }
		key       = []
		algorithm = "fixed_window"
		rate      = "0/s"
		[limit.vip]
		match     = { path = "/vip" }
		key       = []
		algorithm = "fixed_window"
		rate      = "unlimited"`)
	s.store = nil // would panic
	check := func(uri string, want ...string) {
		t.Helper()
		if got := answers(t, s, "X-Original-URI: "+uri); got != strings.Join(want, "\n") {
			t.Errorf("%s: got\n%s\nwant\n%s", uri, got, strings.Join(want, "\n"))
		}
	}
	check("/", "200 OK", "X-Authz-Status: 200")
	check("/healthz", "200 OK", "X-Authz-Status: 200")
	check("/vip", "200 OK", "X-Authz-Status: 200")
	check("/a/.env", "403 Forbidden", "X-Authz-Status: 403")
	check("/%zz", "403 Forbidden", "X-Authz-Status: 403")
	check("/v1/x", "403 Forbidden", "X-Authz-Status: 403", "X-Authz-Limit: key")
	check("/off", "403 Forbidden", "X-Authz-Status: 429", "X-Authz-Limit: off", `RateLimit-Policy: "off";q=0;w=1`, `RateLimit: "off";r=0`)
}

// A bug must not be a way around the limits: nginx would make 500 of a dead connection, and some sites
// let that pass.
func TestAPanicIsAnsweredAsUnavailable(t *testing.T) {
	s := serviceFor(t, tokens)
	memory := s.store
	check := func(said any, want string) {
		t.Helper()
		log, out := testkit.Log()
		s.store, s.Log, s.warned.panicked = failing(func() error { panic(said) }), log, monotonic.OncePerMinute{}
		made := 0
		s.requests = sync.Pool{New: func() any { made++; return new(request) }}
		for range 2 { // of which the log has one
			const want = "403 Forbidden\nX-Authz-Status: 503\nRetry-After: 1"
			if got := answers(t, s, "X-Original-URI: /api/", "X-Real-IP: 203.0.113.9"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
		if made != 2 {
			t.Errorf("%v: %d requests were made for two, want none used again that a panic left", said, made)
		}
		if got, _, _ := strings.Cut(out.String(), " stack="); got != `level=ERROR msg="BUG in authz, the request is answered as unavailable" error=`+want {
			t.Errorf("%v: logged\n%s\nwant error=%s", said, got, want)
		}
		if strings.Count(out.String(), "\n") != 1 || !strings.Contains(out.String(), "answer.go") {
			t.Errorf("%v: logged\n%s\nwant a line with the stack", said, out)
		}
	}
	// what we and Go say has nothing of a client's in it, as far as we know; the rest may
	check("BUG: no such thing", `"BUG: no such thing"`)
	check("s3cr3t", `"a panic"`)
	check(errors.New("s3cr3t"), `"a panic"`)
	if got, want := shown(t, s, "authz_panics_total"), "authz_panics_total 6\n"; got != want {
		t.Errorf("metrics: %swant %s", got, want)
	}
	s.store = memory
	if got, want := answers(t, s, "X-Original-URI: /api/"), "200 OK\nX-Authz-Status: 200\nX-Authz-Limit: api\n"+
		"RateLimit-Policy: \"api\";q=1000000;w=1\nRateLimit: \"api\";r=999999;t=1"; got != want {
		t.Errorf("the next one: got\n%s\nwant\n%s", got, want)
	}
}

func TestEveryRouteHasAStatusForEveryVerdict(t *testing.T) {
	for i, statuses := range statuses {
		for v, status := range statuses {
			if status < 200 || status > 499 {
				t.Errorf("%s answers %v by %d, want a status that its proxy understands", route.All[i].Path, decision.Verdict(v), status)
			}
		}
	}
}
