package tests

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// both choices for a dead authz, and what a client sees then.
var choices = []struct{ name, server, want string }{
	{"closed", closedServer, "503 Retry-After=1"},
	{"open", "include authz/authz_server_open.conf; location / { proxy_pass http://app; }", "200"},
}

// C022: authz is not there. Nobody sees a 500.
func TestWithoutAuthzAServerIsClosedOrOpen(t *testing.T) {
	for _, choice := range choices {
		for _, tcp := range []bool{false, true} {
			s := startSite(t, siteConf{limits: tenAMinute, server: choice.server, tcp: tcp})
			s.authz.cmd.Process.Kill()
			<-s.authz.exited
			for protocol, send := range s.both() {
				for _, line := range []string{"GET /", "POST /a", "GET /status/403"} {
					want := choice.want
					if choice.name == "open" && line == "GET /status/403" {
						want = "403"
					}
					if got := send(t, line, "").show("Retry-After", "RateLimit", "X-Authz-Limit"); got != want {
						t.Errorf("%s, TCP %v, %s over %s: %s, want %s", choice.name, tcp, line, protocol, got, want)
					}
				}
			}
		}
	}
}

// A request is not checked a second time after a redirect only because authz was away the first time,
// and the server's own 403 is a 403 while it is open.
func TestADeadAuthzIsAskedOnce(t *testing.T) {
	for _, choice := range choices {
		s := startSite(t, siteConf{
			limits: tenAMinute,
			http:   "log_format authz '$request_uri authz=$authz_status';",
			server: choice.server + `
				access_log access.log authz;
				location = /off { auth_request off; return 204; }
				location /index/ { root html; }
				location /folder/ { root html; }`,
			files: map[string]string{"html/index/index.html": "the index", "html/folder/file": ""},
		})
		s.authz.cmd.Process.Kill()
		<-s.authz.exited
		if got := s.send(t, "GET /index/", "").show("Retry-After"); got != choice.want {
			t.Errorf("%s: %s, want %s", choice.name, got, choice.want)
		}
		own := choice.want
		if choice.name == "open" {
			own = "403"
		}
		if got := s.send(t, "GET /folder/", "").show("Retry-After"); got != own {
			t.Errorf("%s: a folder without an index: %s, want %s", choice.name, got, own)
		}
		if got := s.send(t, "GET /off", "").status; got != 204 {
			t.Errorf("%s: a location without a check: %d, want 204", choice.name, got)
		}
		s.quit(t)
		status := map[string]string{"closed": "503", "open": ""}[choice.name]
		want := fmt.Sprintf("/index/ authz=%s\n/folder/ authz=%s\n/off authz=-\n", status, status)
		if got := s.read(t, "access.log"); got != want {
			t.Errorf("%s: logged\n%s, want\n%s", choice.name, got, want)
		}
		if got := countLines(s.read(t, "error.log"), "connect() to unix:"); got != 2 {
			t.Errorf("%s: nginx tried to connect %d times for 2 requests", choice.name, got)
		}
	}
}

// C021: authz takes the connection and never answers, or does not even take it. The client waits for
// nginx's timeouts, a second at most, not for a minute. When authz is back, so are the limits.
func TestAStuckAuthzDelaysARequestByASecond(t *testing.T) {
	for _, choice := range choices {
		s := startSite(t, siteConf{limits: tenAMinute, server: choice.server})
		s.authz.signal(t, syscall.SIGSTOP)
		fastestOf(t, 2, 1500*time.Millisecond, func() {
			if got := s.send(t, "GET /", "").show("Retry-After"); got != choice.want {
				t.Errorf("%s: %s, want %s", choice.name, got, choice.want)
			}
		})
		s.authz.signal(t, syscall.SIGCONT)
		s.from = "127.0.0.2"
		if got := s.send(t, "GET /", "").show("Retry-After"); got != "200" {
			t.Errorf("%s: %s after authz is back, want 200", choice.name, got)
		}

		s = startSite(t, siteConf{
			limits:   tenAMinute,
			server:   choice.server,
			upstream: "upstream authz { server " + fullListener(t) + "; keepalive 8; }",
		})
		fastestOf(t, 2, 1500*time.Millisecond, func() {
			if got := s.send(t, "GET /", "").show("Retry-After"); got != choice.want {
				t.Errorf("%s: %s, want %s", choice.name, got, choice.want)
			}
		})
	}
}

// With several instances, one that cannot be reached costs nobody anything. One that took the request
// may have charged it: the next is not asked.
func TestAnotherInstanceIsAskedOnlyWhenTheFirstWasNot(t *testing.T) {
	dir := socketDir(t)
	stuck, err := net.Listen("unix", filepath.Join(dir, "stuck.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer stuck.Close()
	authz := filepath.Join(dir, "authz.sock")
	s := startSite(t, siteConf{
		limits: tenAMinute,
		server: closedServer,
		serve:  []string{"--listen=unix:" + authz},
		upstream: fmt.Sprintf(`upstream authz {
			server unix:%[1]s/gone.sock;
			server unix:%[1]s/stuck.sock;
			server unix:%[1]s/authz.sock;
		}`, dir),
	})
	s.mayLog = []string{"gone.sock failed (2: No such file or directory)"}
	want := []string{"503 Retry-After=1", "200", "200"}
	for i := range want {
		if got := s.send(t, "GET /", "").show("Retry-After"); got != want[i] {
			t.Errorf("request %d: %s, want %s", i+1, got, want[i])
		}
	}
	if got := s.asked(t); got != 2 {
		t.Errorf("Redis decided %d requests, want 2", got)
	}
}

// fastestOf fails unless one of count calls of f took less than limit: a busy machine makes some of
// them slower, nothing makes one faster.
func fastestOf(t *testing.T, count int, limit time.Duration, f func()) {
	t.Helper()
	fastest := time.Hour
	for range count {
		start := time.Now()
		f()
		fastest = min(fastest, time.Since(start))
	}
	if fastest >= limit {
		t.Errorf("the fastest of %d took %v, want less than %v", count, fastest, limit)
	}
}

// fullListener is an address whose queue of connections is full, so that a further one is never
// taken: its packets are dropped.
func fullListener(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 64 {
		c, err := net.DialTimeout("tcp", addr, 500*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("64 connections in the queue, and still not full")
	return ""
}

// C023: with the server open while authz is dead, nothing that a client sends may look like a dead
// authz. Over its limit it is refused, whatever else it sends, and the application never asked.
func TestNoRequestForcesItsWayThroughAnOpenServer(t *testing.T) {
	s := startSite(t, siteConf{limits: onceOnly, server: "large_client_header_buffers 8 64k;" + choices[1].server})
	if got := s.send(t, "GET /", "").status; got != 200 {
		t.Fatalf("the first request: %d, want 200", got)
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		line, body string
		header     []string
	}{
		"plain":                  {"GET /", "", nil},
		"cookie of 5 KB":         {"GET /", "", []string{"Cookie: a=" + long(5000)}},
		"cookie of 7.9 KB":       {"GET /", "", []string{"Cookie: a=" + long(7900)}},
		"many cookies":           {"GET /", "", []string{"Cookie: a=" + long(7000), "Cookie: b=" + long(7000), "Cookie: c=" + long(7000)}},
		"all headers at 7.9 KB":  {"GET /", "", []string{"Cookie: a=" + long(7900), "Authorization: " + long(7900), "X-API-Key: " + long(7900)}},
		"more than authz reads":  {"GET /", "", []string{"Cookie: a=" + long(60_000), "X-API-Key: " + long(60_000)}},
		"and a bad byte in it":   {"GET /", "", []string{"Authorization: \x01", "Cookie: a=" + long(60_000), "X-API-Key: " + long(60_000)}},
		"target of 60 KB":        {"GET /" + long(60_000), "", nil},
		"target of 7.9 KB":       {"GET /" + long(7900), "", nil},
		"0x01 in a header":       {"GET /", "", []string{"X-Other: a\x01b"}},
		"0x01 in a cookie":       {"GET /", "", []string{"Cookie: a=\x01b"}},
		"0x01 in Authorization":  {"GET /", "", []string{"Authorization: \x01"}},
		"0x7f in X-API-Key":      {"GET /", "", []string{"X-API-Key: \x7f\xff\xfe"}},
		"tab and high bytes":     {"GET /", "", []string{"Cookie: a=\t\x80\xff"}},
		"high bytes in target":   {"GET /\xff\xfe\x80?\xff", "", nil},
		"POST":                   {"POST /", "0123456789", nil},
		"POST of 2 MB":           {"POST /small", long(2 << 20), nil},
		"PUT that waits":         {"PUT /", "0123456789", []string{"Expect: 100-continue"}},
		"chunks":                 {"POST /", "", []string{"Transfer-Encoding: chunked"}},
		"upgrade":                {"GET /", "", []string{"Upgrade: websocket", "Connection: Upgrade"}},
		"h2c upgrade":            {"GET /", "", []string{"Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQAAP__"}},
		"range":                  {"GET /", "", []string{"Range: bytes=0-1,2-3,4-5", "If-Range: x"}},
		"a method of its own":    {"FROB /", "", nil},
		"a long method":          {"FROB" + "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB" + " /", "", nil},
		"a dead port as host":    {"GET /", "", []string{"Host: site.test:1"}},
		"a full URL":             {"GET http://site.test/", "", nil},
		"a full URL with query":  {"GET http://site.test?a=b", "", nil},
		"close":                  {"GET /", "", []string{"Connection: close", "Keep-Alive: timeout=0"}},
		"headers of ours":        {"GET /", "", []string{"X-Authz-Status: 200", "X-Authz-Zone: x", "X-Original-URI: /_authz"}},
		"proxy headers":          {"GET /", "", []string{"Proxy: x", "Via: x", "X-Accel-Redirect: /", "Content-Type: text/plain"}},
		"names with underscores": {"GET /", "", []string{"X_Original_URI: /", "X_API_KEY: 1"}},
	} {
		got := s.send(t, c.line, c.body, c.header...)
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: %d, want a refusal", name, got.status)
		}
	}
	if got := s.app.asked.Load(); got != 1 {
		t.Errorf("the application was asked %d times, want once", got)
	}
}
