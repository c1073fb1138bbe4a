package service

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const someLimits = `
	[limit.api]
	match     = { path = "/api/**" }
	key       = ["ip", "header:X-API-Key", "cookie:s", "query:q"]
	missing   = "share"
	algorithm = "token_bucket"
	rate      = "1000000/s"
	burst     = 1000000

	[deny.env]
	match = { path = "/**/.env" }`

// start serves s on a real listener until the test ends.
func start(t testing.TB, s *Service, addr string) net.Listener {
	t.Helper()
	l, err := Listen(addr, 0o660, s.Log)
	if err != nil {
		t.Fatal(err)
	}
	server, done := s.server(), make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Shutdown()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

const ask = "X-Original-Method: GET\r\nX-Original-URI: /api/x\r\n"

func TestWhateverIsSentIsAnsweredWithoutABody(t *testing.T) {
	s := serviceFor(t, someLimits)
	l := start(t, s, "127.0.0.1:0")
	// check sends text and nothing else, and wants these answers at once: nothing may be waited for.
	// "open": what comes next is read as a request of its own.
	check := func(text, want string) {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		var got []string
		r := bufio.NewReader(c)
		for n := len(strings.Fields(want)) - 1; n > 0; n-- {
			status, last := answer(t, r)
			if got = append(got, status); last {
				break
			}
		}
		got = append(got, end(t, c, r))
		if strings.Join(got, " ") != want {
			t.Errorf("%.200q\ngot  %s\nwant %s", text, strings.Join(got, " "), want)
		}
	}
	const nginx = "GET /nginx HTTP/1.1\r\nHost: a\r\n" + ask

	// well-formed
	check(nginx+"\r\n", "200 open")
	check(nginx+"\r\n"+nginx+"\r\n"+nginx+"\r\n", "200 200 200 open")
	check(nginx+"Connection: close\r\n\r\n"+nginx+"\r\n", "200 closed")
	check("HEAD /nginx HTTP/1.1\r\nHost: a\r\n"+ask+"\r\n", "200 open")
	check("BREW /nginx HTTP/1.1\r\nHost: a\r\n"+ask+"\r\n", "200 open")
	check("GET /nginx HTTP/1.0\r\n"+ask+"\r\n", "200 closed")
	check("GET /nginx HTTP/1.0\r\nConnection: keep-alive\r\n"+ask+"\r\n", "200 open")
	check("POST /nginx HTTP/1.1\r\nHost: a\r\n"+ask+"Content-Length: 0\r\n\r\n", "200 open")
	check("POST /nginx HTTP/1.1\r\nHost: a\r\n"+ask+"\r\n", "200 open")
	check("GET /nginx HTTP/1.1\r\nHost: a\r\n\r\n", "403/403 open")
	check("GET /nope HTTP/1.1\r\nHost: a\r\n\r\n", "404 open")
	check("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "404 open")
	check("GET http://a/nginx HTTP/1.1\r\nHost: a\r\n"+ask+"\r\n", "404 open")

	// a body is announced: answered before it comes, and it is never the next request
	body := "GET /nginx HTTP/1.1\r\nHost: a\r\n" + ask + "\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(body))
	post := "POST /nginx HTTP/1.1\r\nHost: a\r\n" + ask
	check(post+length+"\r\n", "200 closed")
	check(post+length+"\r\n"+body, "200 closed")
	check(post+length+"\r\n"+body+body, "200 closed")
	check(nginx+length+"\r\n"+body, "200 closed")
	check("HEAD /nginx HTTP/1.1\r\nHost: a\r\n"+ask+length+"\r\n"+body, "200 closed")
	check(post+"Transfer-Encoding: chunked\r\n\r\n", "200 closed")
	check(post+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+body, "200 closed")
	check(post+"Transfer-Encoding: chunked\r\n"+length+"\r\n"+body, "200 closed")
	check(post+length+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+body, "200 closed")
	check(post+"Transfer-Encoding: identity\r\n"+length+"\r\n"+body, "200 closed")
	check(post+"Expect: 100-continue\r\n"+length+"\r\n", "200 closed")
	check(post+"Expect: 100-continue\r\n\r\n"+body, "200 closed")
	check(post+"Expect: the unexpected\r\n\r\n"+body, "200 closed")
	check("POST /nginx HTTP/1.0\r\nConnection: keep-alive\r\n"+ask+length+"\r\n"+body, "200 closed")
	check("POST /nope HTTP/1.1\r\nHost: a\r\n"+length+"\r\n"+body, "404 closed")
	check(post+"Content-Length: 99999999999\r\n\r\n", "200 closed")
	check(post+length+"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x", "200 closed")

	// what the parser rejects
	check(post+"Content-Length: 4\r\nContent-Length: 4\r\n\r\nGET ", "403/403 closed")
	check(post+"Content-Length: 4, 4\r\n\r\nGET ", "403/403 closed")
	check(post+"Content-Length: -1\r\n\r\n", "403/403 closed")
	check(post+"Content-Length: 99999999999999999999999\r\n\r\n", "403/403 closed")
	check(post+"Content-Length : 4\r\n\r\nGET ", "403/403 closed")
	check(post+"Transfer-Encoding: gzip, chunked\r\n\r\n", "403/403 closed")
	check(post+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "403/403 closed")
	check(post+"Transfer-Encoding: \x0bchunked\r\n\r\n", "403/403 closed")
	check("POST /nginx HTTP/1.0\r\n"+ask+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "403/403 closed")
	check("GET /nginx HTTP/1.1\r\n"+ask+"\r\n", "403/403 closed")
	check("GET /nginx HTTP/1.1\r\nHost: a\r\nHost: b\r\n"+ask+"\r\n", "403/403 closed")
	check("GET /nginx HTTP/1.1\r\nHost: a b\r\n"+ask+"\r\n", "403/403 closed")
	check(nginx+"X-API-Key: a\x01b\r\n\r\n", "403/403 closed")
	check(nginx+"X-API-Key: a\x00b\r\n\r\n", "403/403 closed")
	check(nginx+"no colon\r\n\r\n", "403/403 closed")
	check(nginx+": no name\r\n\r\n", "403/403 closed")
	check("GET /nginx\r\n\r\n", "403/403 closed")
	check("GET  /nginx HTTP/1.1\r\nHost: a\r\n\r\n", "403/403 closed")
	check("GET /nginx HTTP/1.1 x\r\nHost: a\r\n\r\n", "403/403 closed")
	check("GET /nginx\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "403/403 closed")
	check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "403/403 closed")
	check("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n", "403/403 closed")

	// sizes: 64 KB of headers are read, more are not
	check(nginx+"Cookie: s="+strings.Repeat("c", 64<<10-200)+"\r\n\r\n", "200 open")
	check(nginx+strings.Repeat("X-H: "+strings.Repeat("v", 1017)+"\r\n", 63)+"\r\n", "200 open")
	check("GET /nginx?"+strings.Repeat("x", 7<<10)+" HTTP/1.1\r\nHost: a\r\n"+ask+"Cookie: "+strings.Repeat("c", 63<<10)+"\r\n\r\n", "200 open")
	check(nginx+"Cookie: "+strings.Repeat("c", 80<<10)+"\r\n\r\n", "403/403 closed")
	check(nginx+"X-Original-Host: \xff\xfe\x80\r\n\r\n", "200 open")
}

// answer reads one, and says what it is: its status, and the client's unless they are the same 200.
// last: the server says that it closes.
func answer(t testing.TB, r *bufio.Reader) (status string, last bool) {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: "GET"})
	if err != nil {
		return err.Error(), true
	}
	status = fmt.Sprint(resp.StatusCode)
	if client := resp.Header.Get("X-Authz-Status"); client != "" && client != "200" {
		status += "/" + client
	}
	if resp.Header.Get("Content-Length") != "0" || len(resp.TransferEncoding) > 0 || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: %v, want Content-Length: 0 and Cache-Control: no-store", status, resp.Header)
	}
	return status, resp.Close
}

// end says whether the connection takes another request, or is closed and nothing more came.
func end(t testing.TB, c net.Conn, r *bufio.Reader) string {
	t.Helper()
	io.WriteString(c, "GET /end HTTP/1.1\r\nHost: a\r\n\r\n") // fails if closed
	resp, err := http.ReadResponse(r, &http.Request{Method: "GET"})
	switch {
	case err == nil && resp.StatusCode == 404 && !resp.Close:
		return "open"
	case err == nil:
		return resp.Status
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "closed"
	}
	return err.Error()
}

// A body that nobody reads is still under way when the answer is sent and the connection closed. The
// client must get the answer all the same.
func TestALargeBodyDoesNotCostTheAnswer(t *testing.T) {
	s := serviceFor(t, someLimits)
	l := start(t, s, "127.0.0.1:0")
	for range 20 {
		req, err := http.NewRequest("POST", "http://"+l.Addr().String()+"/nginx", strings.NewReader(strings.Repeat("b", 4<<20)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Original-Method", "POST")
		req.Header.Set("X-Original-URI", "/api/x")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 || !resp.Close {
			t.Errorf("status %d, close %v, want 200 and the connection closed", resp.StatusCode, resp.Close)
		}
	}
}

func FuzzCheckEndpoint(f *testing.F) {
	const nginx = "GET /nginx HTTP/1.1\r\nHost: a\r\n" + ask
	for _, seed := range []string{nginx + "\r\n", nginx + "\r\n" + nginx + "\r\n", nginx + "Content-Length: 5\r\n\r\nGET /",
		nginx + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", nginx + "Expect: 100-continue\r\n\r\n",
		nginx + "Cookie: s=1; s=2\r\nX-API-Key: k\r\n folded\r\n\r\n", "GET /nginx HTTP/1.0\r\n\r\n", "HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URL: http://h/.env?q=%zz\r\nX-Forwarded-For: ::1, x\r\n\r\n"} {
		f.Add([]byte(seed))
	}
	s := serviceFor(f, someLimits)
	l := start(f, s, "unix:"+filepath.Join(f.TempDir(), "s"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(20 * time.Second))
		c.Write(sent) // may fail: the server need not read it all
		c.(*net.UnixConn).CloseWrite()
		r := bufio.NewReader(c)
		for last := false; ; {
			if _, err := r.Peek(1); err == io.EOF || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
				return
			} else if err != nil || last {
				t.Fatalf("after the last answer: %v, want the connection closed", err)
			}
			var status string
			switch status, last = answer(t, r); status {
			case "200", "403/429", "403/403", "404":
			default:
				t.Fatalf("answered %s, want 200, 403 or 404", status)
			}
		}
	})
}
