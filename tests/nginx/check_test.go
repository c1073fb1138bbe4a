package nginx

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authz/tests/rig"
)

// wire stands between nginx and authz and hands on every byte, to show what the two say.
type wire struct {
	socket      string
	mu          sync.Mutex
	connections int
	toAuthz     bytes.Buffer
	toNginx     bytes.Buffer
}

// startWire listens on a unix socket and connects to authz for every connection.
func startWire(t testing.TB, authz string) *wire {
	t.Helper()
	w := &wire{socket: filepath.Join(rig.SocketDir(t), "wire.sock")}
	l, err := net.Listen("unix", w.socket)
	if err != nil {
		t.Fatal(err)
	}
	var copies sync.WaitGroup
	hand := func(to, from net.Conn, said *bytes.Buffer) {
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			w.mu.Lock()
			said.Write(buf[:n])
			w.mu.Unlock()
			if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	copies.Go(func() {
		for {
			nginx, err := l.Accept()
			if err != nil {
				return
			}
			authz, err := net.Dial("unix", authz)
			if err != nil {
				nginx.Close()
				continue
			}
			w.mu.Lock()
			w.connections++
			w.mu.Unlock()
			copies.Go(func() { hand(authz, nginx, &w.toAuthz) })
			copies.Go(func() { hand(nginx, authz, &w.toNginx) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		copies.Wait()
	})
	return w
}

// said is what went over the wire since it was last asked.
// The id of each request is ID.
func (w *wire) said() (toAuthz, toNginx string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.toAuthz.Reset()
	defer w.toNginx.Reset()
	return nginxsRequestID.ReplaceAllString(w.toAuthz.String(), "X-Request-ID: ID\r\n"), w.toNginx.String()
}

// startWiredSite is a site whose nginx speaks to authz over a wire.
func startWiredSite(t testing.TB, conf rig.SiteConf) (*rig.Site, *wire) {
	t.Helper()
	authz := filepath.Join(rig.SocketDir(t), "authz.sock")
	w := startWire(t, authz)
	conf.Serve = append(conf.Serve, "--listen=unix:"+authz)
	conf.Upstream = rig.Edited(t, "authz_upstream_unix.conf", "/run/authz/authz.sock;", w.socket+";")
	return rig.StartSite(t, conf), w
}

// nginxsRequestID is one that nginx has made.
var nginxsRequestID = regexp.MustCompile(`X-Request-ID: [0-9a-f]{32}\r\n`)

// C006, C007, C023: whatever a client sends, the check has a line and the headers that are named in
// the includes, and no body nor anything that announces one.
func TestACheckIsWhatTheIncludesSay(t *testing.T) {
	check := func(method, uri, more string) string {
		text := "GET /nginx HTTP/1.1\r\n" +
			"X-Original-Method: " + method + "\r\n" +
			"X-Original-URI: " + uri + "\r\n" +
			"X-Original-Host: site.test\r\n" +
			"X-Real-IP: 127.0.0.1\r\n" +
			"X-Authz-Zone: api\r\nX-Request-ID: ID\r\n" + more +
			"Host: authz\r\n\r\n"
		return text
	}
	s, w := startWiredSite(t, rig.SiteConf{
		Limits: strings.Replace(tenAMinute, "10/m", "1000/m", 1),
		Server: `
			include authz/authz_server.conf;
			location / { set $authz_zone api; client_max_body_size 10m; proxy_pass http://app; }`,
	})
	mine := []string{"Accept: */*", "X-Forwarded-For: 203.0.113.9", "X-Real-IP: 203.0.113.9", "X-Original-URI: /free",
		"X-Original-Method: OPTIONS", "X-Original-Host: other.test", "X-Authz-Zone: free", "X-Authz-Status: 200", "X-Request-ID: mine", "TE: trailers"}
	for _, c := range []struct {
		line, body string
		header     []string
		want       string
	}{
		{"GET /a", "", mine, check("GET", "/a", "")},
		{"HEAD /a", "", nil, check("HEAD", "/a", "")},
		{"POST /a?b=c", "0123456789", mine, check("POST", "/a?b=c", "")},
		{"PUT /%61//./x", strings.Repeat("x", 2<<20), nil, check("PUT", "/%61//./x", "")},
		{"GET /", "", []string{"Authorization: Bearer t", "X-API-Key: k", "X-Other: o", "Cookie: a=b"},
			check("GET", "/", "Authorization: Bearer t\r\nCookie: a=b\r\nX-API-Key: k\r\n")},
	} {
		for protocol, send := range s.Both() {
			got := send(t, c.line, c.body, c.header...)
			if got.Status != 200 || !strings.HasSuffix(got.Body, fmt.Sprintf(" %d bytes", len(c.body))) && c.line != "HEAD /a" {
				t.Errorf("%s over %s: %d %q, want 200 and all of the body", c.line, protocol, got.Status, got.Body)
			}
			if asked, _ := w.said(); asked != c.want {
				t.Errorf("%s over %s: authz was asked\n%q, want\n%q", c.line, protocol, asked, c.want)
			}
		}
	}
	// A body in chunks, and one that waits to be asked for.
	for name, text := range map[string]string{
		"chunked":  "POST /a HTTP/1.1\r\nHost: site.test\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
		"waits":    "POST /a HTTP/1.1\r\nHost: site.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nabcde",
		"HTTP/1.0": "POST /a HTTP/1.0\r\nHost: site.test\r\nContent-Length: 5\r\n\r\nabcde",
	} {
		if got := s.SendRaw(t, text); got.Status != 200 || got.Body != "app POST /a 5 bytes" {
			t.Errorf("%s: %d %q, want 200 and 5 bytes", name, got.Status, got.Body)
		}
		if asked, _ := w.said(); asked != check("POST", "/a", "") {
			t.Errorf("%s: authz was asked\n%q, want\n%q", name, asked, check("POST", "/a", ""))
		}
	}
	// C019: all of these over one connection.
	if w.connections != 1 {
		t.Errorf("%d connections to authz, want 1", w.connections)
	}
}

// C019 through a refusal too: neither answer closes the connection.
func TestFiveChecksUseOneConnection(t *testing.T) {
	s, w := startWiredSite(t, rig.SiteConf{Limits: threeEach, Server: rig.ClosedServer})
	if got := s.SendAll(t, 5, "POST /a"); got != "200 200 200 429 429" {
		t.Errorf("got %s, want 200 200 200 429 429", got)
	}
	if w.connections != 1 {
		t.Errorf("%d connections to authz, want 1", w.connections)
	}
}

// nginx's default would close a connection to authz after 1,000 checks.
func TestOneConnectionServesMoreThanAThousandChecks(t *testing.T) {
	s, w := startWiredSite(t, rig.SiteConf{Limits: onceOnly, Server: rig.ClosedServer})
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	for i := range 1100 {
		request, err := http.NewRequest("OPTIONS", "http://"+s.Addr+"/", nil) // allowed
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if got := rig.ReadAnswer(t, response).Status; got != 200 {
			t.Fatalf("check %d: %d, want 200", i+1, got)
		}
	}
	if asked, _ := w.said(); strings.Count(asked, " /nginx HTTP/1.1\r\n") != 1100 {
		t.Error("authz was not asked 1100 times")
	}
	if w.connections != 1 {
		t.Errorf("%d connections to authz, want 1", w.connections)
	}
}

// C025: an answer under 50 limits is no larger than under one.
func TestFiftyLimitsFitIntoAnAnswer(t *testing.T) {
	var limits strings.Builder
	for i := range 50 {
		fmt.Fprintf(&limits, "[limit.%s-%02d]\nkey = [\"ip\"]\nalgorithm = \"sliding_window\"\nrate = \"%d/h\"\n",
			strings.Repeat("long-name-", 6), i, 10+i)
	}
	s, w := startWiredSite(t, rig.SiteConf{Limits: limits.String(), Server: rig.ClosedServer, Serve: []string{"--headers=both"}})
	if got, want := s.SendAll(t, 11, "GET /"), strings.Repeat("200 ", 10)+"429"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, answers := w.said()
	for answer := range strings.SplitSeq(strings.TrimSuffix(answers, "\r\n\r\n"), "\r\n\r\n") {
		if len(answer) > 1020 {
			t.Errorf("an answer of %d bytes, want less than 1024:\n%s", len(answer)+4, answer)
		}
	}
	// One EVALSHA a request, 50 limits or one.
	if got := s.Asked(t); got != 11 {
		t.Errorf("Redis decided %d requests, want 11", got)
	}
}

// What a server sets for its pages is not for the check: here each of them would change its answer, or
// what authz is sent, or repeat it.
func TestAServersOwnSettingsDoNotTouchTheCheck(t *testing.T) {
	for _, settings := range []string{
		`proxy_cache pages; proxy_cache_key one; proxy_cache_valid any 1h; proxy_ignore_headers Cache-Control;`,
		`recursive_error_pages on; proxy_intercept_errors on; error_page 502 503 504 429 /busy;`,
		`proxy_set_body "GET /nginx HTTP/1.1"; proxy_method POST;`,
		`proxy_set_header X-Original-URI /free; proxy_set_header Connection close; proxy_http_version 1.0;`,
		`client_max_body_size 1; proxy_request_buffering off; proxy_buffering off;`,
		`add_header X-Any 1 always; gzip on; sub_filter a b; etag off; expires 1h;`,
		`auth_basic off; satisfy any; limit_rate 1m; keepalive_timeout 0; lingering_close always;`,
	} {
		s, w := startWiredSite(t, rig.SiteConf{
			Limits: threeEach,
			Serve:  []string{"--refusals-max=0"}, // every check is one that Redis sees
			Http:   "proxy_cache_path cache keys_zone=pages:1m;",
			Server: "include authz/authz_server.conf;" + settings + `
				location / { proxy_cache off; client_max_body_size 1m; proxy_pass http://app; }
				location = /busy { return 204; }`,
		})
		for i, want := range []int{200, 200, 200, 429, 429} {
			got := s.Send(t, "POST /a", "0123456789").Status
			if got != want {
				t.Errorf("%s\nrequest %d: %d, want %d", settings, i+1, got, want)
			}
			if asked, _ := w.said(); !strings.HasPrefix(asked, "GET /nginx HTTP/1.1\r\n") && !strings.HasPrefix(asked, "POST /nginx HTTP/1.1\r\n") ||
				!strings.HasSuffix(asked, "\r\n\r\n") || strings.Count(asked, "/nginx HTTP") != 1 || strings.Contains(asked, "/free") {
				t.Errorf("%s\nauthz was asked\n%q", settings, asked)
			}
		}
		if got := s.Asked(t); got != 5 {
			t.Errorf("%s\nRedis decided %d requests, want 5", settings, got)
		}
		s.Authz.Cmd.Process.Kill()
		<-s.Authz.Exited
		if got := s.Send(t, "POST /a", "0123456789").Status; got != 503 {
			t.Errorf("%s\nwithout authz: %d, want 503", settings, got)
		}
	}
}
