package nginx

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// both choices for a dead authz, and what a client sees then.
var choices = []struct{ name, server, want string }{
	{"closed", rig.ClosedServer, "503 Retry-After=1"},
	{"open", "include authz/authz_server_open.conf; location / { proxy_pass http://app; }", "200"},
}

// C022: authz is not there. Nobody sees a 500.
func TestWithoutAuthzAServerIsClosedOrOpen(t *testing.T) {
	for _, choice := range choices {
		for _, tcp := range []bool{false, true} {
			s := rig.StartSite(t, rig.SiteConf{Limits: tenAMinute, Server: choice.server, Tcp: tcp})
			s.Authz.Cmd.Process.Kill()
			<-s.Authz.Exited
			for protocol, send := range s.Both() {
				for _, line := range []string{"GET /", "POST /a", "GET /status/403"} {
					want := choice.want
					if choice.name == "open" && line == "GET /status/403" {
						want = "403"
					}
					if got := send(t, line, "").Show("Retry-After", "RateLimit", "X-Authz-Limit"); got != want {
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
		s := rig.StartSite(t, rig.SiteConf{
			Limits: tenAMinute,
			Http:   "log_format authz '$request_uri authz=$authz_status';",
			Server: choice.server + `
				access_log access.log authz;
				location = /off { auth_request off; return 204; }
				location /index/ { root html; }
				location /folder/ { root html; }`,
			Files: map[string]string{"html/index/index.html": "the index", "html/folder/file": ""},
		})
		s.Authz.Cmd.Process.Kill()
		<-s.Authz.Exited
		if got := s.Send(t, "GET /index/", "").Show("Retry-After"); got != choice.want {
			t.Errorf("%s: %s, want %s", choice.name, got, choice.want)
		}
		own := choice.want
		if choice.name == "open" {
			own = "403"
		}
		if got := s.Send(t, "GET /folder/", "").Show("Retry-After"); got != own {
			t.Errorf("%s: a folder without an index: %s, want %s", choice.name, got, own)
		}
		if got := s.Send(t, "GET /off", "").Status; got != 204 {
			t.Errorf("%s: a location without a check: %d, want 204", choice.name, got)
		}
		s.Quit(t)
		status := map[string]string{"closed": "503", "open": ""}[choice.name]
		want := fmt.Sprintf("/index/ authz=%s\n/folder/ authz=%s\n/off authz=-\n", status, status)
		if got := s.Read(t, "access.log"); got != want {
			t.Errorf("%s: logged\n%s, want\n%s", choice.name, got, want)
		}
		if got := rig.CountLines(s.Read(t, "error.log"), "connect() to unix:"); got != 2 {
			t.Errorf("%s: nginx tried to connect %d times for 2 requests", choice.name, got)
		}
	}
}

// C021: authz takes the connection and never answers, or does not even take it. What ends the wait is
// the include's own timeout, not nginx's of a minute, which is longer than a client waits here. When
// authz is back, so are the limits.
func TestAStuckAuthzDelaysARequestByASecond(t *testing.T) {
	for _, choice := range choices {
		late := func(s *rig.Site, phase string) {
			t.Helper()
			if got := s.Send(t, "GET /", "").Show("Retry-After"); got != choice.want {
				t.Errorf("%s, late while %s: %s, want %s", choice.name, phase, got, choice.want)
			}
			if log := s.Read(t, "error.log"); rig.CountLines(log, "upstream timed out (110: Connection timed out) while "+phase) != 1 {
				t.Errorf("%s: not one timeout while %s:\n%s", choice.name, phase, log)
			}
		}
		s := rig.StartSite(t, rig.SiteConf{Limits: tenAMinute, Server: choice.server})
		s.Authz.Signal(t, syscall.SIGSTOP)
		late(s, "reading response header from upstream")
		s.Authz.Signal(t, syscall.SIGCONT)
		s.From = "127.0.0.2"
		if got := s.Send(t, "GET /", "").Show("Retry-After"); got != "200" {
			t.Errorf("%s: %s after authz is back, want 200", choice.name, got)
		}

		late(rig.StartSite(t, rig.SiteConf{
			Limits:   tenAMinute,
			Server:   choice.server,
			Upstream: "upstream authz { server " + fullListener(t) + "; keepalive 8; }",
		}), "connecting to upstream")
	}
}

// With several instances, one that cannot be reached costs nobody anything, and one that only took the
// connection is not followed by the next, since it may yet charge. One that dies in the middle of a check
// is: nginx cannot tell it from the first, and the request is charged by both.
func TestAnotherInstanceIsAskedUnlessTheFirstIsLate(t *testing.T) {
	for name, c := range map[string]struct {
		first   func(nginx, authz net.Conn)
		want    string
		charged int
	}{
		"cannot be reached": {nil, "200", 1},
		"is late":           {func(nginx, _ net.Conn) { io.Copy(io.Discard, nginx) }, "503 Retry-After=1", 0},
		"hangs up when it has charged": {func(nginx, authz net.Conn) {
			check := make([]byte, 4096)
			n, _ := nginx.Read(check)
			authz.Write(check[:n])
			authz.Read(check)
		}, "200", 2},
	} {
		dir := rig.SocketDir(t)
		first, second := filepath.Join(dir, "first.sock"), filepath.Join(dir, "second.sock")
		s := rig.StartSite(t, rig.SiteConf{
			Limits:   threeEach,
			Server:   rig.ClosedServer,
			Serve:    []string{"--listen=unix:" + second},
			Upstream: fmt.Sprintf("upstream authz { server unix:%s; server unix:%s; }", first, second),
		})
		s.MayLog = []string{"first.sock failed (2: No such file or directory)"}
		if c.first != nil {
			rig.Between(t, first, second, c.first)
		}
		if got := s.Send(t, "GET /", "").Show("Retry-After"); got != c.want {
			t.Errorf("the first %s: %s, want %s", name, got, c.want)
		}
		if got := s.Counted(t, "authz:v1:{ip=127.0.0.1}:three:fw"); got != c.charged {
			t.Errorf("the first %s: %d charged, want %d", name, got, c.charged)
		}
	}
}

// The upstream that nginx/README.md says to write: one late answer of each instance leaves nobody to
// ask, and not for long.
func TestInstancesThatWereLateAreSoonAskedAgain(t *testing.T) {
	dir := rig.SocketDir(t)
	one, two := "unix:"+filepath.Join(dir, "one.sock"), "unix:"+filepath.Join(dir, "two.sock")
	s := rig.StartSite(t, rig.SiteConf{
		Limits:   strings.Replace(tenAMinute, "10/m", "1000/m", 1),
		Server:   rig.ClosedServer,
		Serve:    []string{"--listen=" + one, "--listen=" + two},
		Upstream: strings.NewReplacer("10.0.0.5:7429", one, "10.0.0.6:7429", two).Replace(readmeBlock(t, "fail_timeout=1s;")),
	})
	s.Authz.Signal(t, syscall.SIGSTOP)
	if got := s.SendAll(t, 3, "GET /"); got != "503 503 503" {
		t.Errorf("both are stopped: %s, want 503 503 503", got)
	}
	if log := s.Read(t, "error.log"); rig.CountLines(log, "upstream timed out") != 2 || rig.CountLines(log, "no live upstreams") != 1 {
		t.Errorf("want two that are late and then nobody to ask:\n%s", log)
	}
	s.Authz.Signal(t, syscall.SIGCONT)
	rig.Await(t, "an answer", func() bool { return s.Send(t, "GET /", "").Status == 200 })
}

// nginx has no connection left for a check, which clients can bring about by holding theirs: nobody is
// let in for that, however authz's own end would be answered.
func TestAnNginxWithoutConnectionsLetsNobodyIn(t *testing.T) {
	for _, c := range [][2]string{{"authz_server.conf", "503"}, {"authz_server_open.conf", "403"}} {
		authz := "unix:" + filepath.Join(rig.SocketDir(t), "authz.sock")
		s := rig.StartSite(t, rig.SiteConf{
			Limits:   onceOnly,
			Server:   "include authz/" + c[0] + "; root html; location /free { auth_request off; return 204; }",
			Serve:    []string{"--listen=" + authz},
			Upstream: "upstream authz { server " + authz + "; }",
			Events:   "worker_connections 24;",
			Files:    map[string]string{"html/file": "a file"},
		})
		s.MayLog = []string{"24 worker_connections are not enough"}
		if got := s.Send(t, "GET /file", "").Status; got != 200 {
			t.Fatalf("%s: the first request: %d, want 200", c[0], got)
		}
		got := "429"
		for held := 0; got == "429" && held < 24; held++ {
			slow := s.Dial(t, s.Addr)
			defer slow.Close()
			// Answered is a first request; the half one behind it is then known to be read.
			fmt.Fprint(slow, "GET /free HTTP/1.1\r\nHost: site.test\r\n\r\nGET /file HTTP/1.1\r\nHost: ")
			if _, err := slow.Read(make([]byte, 1024)); err != nil {
				t.Fatal(err)
			}
			got = s.Send(t, "GET /file", "").Show()
		}
		if got != c[1] {
			t.Errorf("%s: without a connection for the check: %s, want %s", c[0], got, c[1])
		}
		if log := s.Read(t, "error.log"); rig.CountLines(log, "worker_connections are not enough") == 0 {
			t.Errorf("%s: nginx had connections enough", c[0])
		}
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
	s := rig.StartSite(t, rig.SiteConf{Limits: onceOnly, Server: "large_client_header_buffers 8 64k;" + choices[1].server})
	if got := s.Send(t, "GET /", "").Status; got != 200 {
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
		got := s.Send(t, c.line, c.body, c.header...)
		if got.Status < 400 || got.Status >= 500 {
			t.Errorf("%s: %d, want a refusal", name, got.Status)
		}
	}
	if got := s.App.Asked.Load(); got != 1 {
		t.Errorf("the application was asked %d times, want once", got)
	}
}
