package rig

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// answer is what a client got.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// Show is the status and those of the named headers that are there: `429 Retry-After=7`.
func (a answer) Show(headers ...string) string {
	text := fmt.Sprint(a.Status)
	for _, name := range headers {
		for _, value := range a.Header.Values(name) {
			text += " " + name + "=" + value
		}
	}
	return text
}

// Sender sends one request, "METHOD TARGET" and header lines, byte for byte as they are written. A body
// is announced by its length. The host is site.test unless there is a header line for it.
type Sender func(t testing.TB, line, body string, header ...string) answer

// clientTimeout only ends a test that hangs: no answer here takes longer than nginx's own timeouts.
const clientTimeout = 20 * time.Second

func (n *NginxServer) Dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: clientTimeout}
	if n.From != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(n.From)}
	}
	network := "tcp"
	if path, isUnix := strings.CutPrefix(addr, "unix:"); isUnix {
		network, addr = "unix", path
	}
	c, err := d.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(clientTimeout))
	return c
}

// Send is a sender over HTTP/1.1, a connection each.
func (n *NginxServer) Send(t testing.TB, line, body string, header ...string) answer {
	t.Helper()
	text := line + " HTTP/1.1\r\n"
	if !hasHost(header) {
		text += "Host: site.test\r\n"
	}
	if body != "" {
		text += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	for _, h := range header {
		text += h + "\r\n"
	}
	return n.SendRaw(t, text+"Connection: close\r\n\r\n"+body)
}

func hasHost(header []string) bool {
	for _, h := range header {
		if name, _, _ := strings.Cut(h, ":"); strings.EqualFold(name, "host") {
			return true
		}
	}
	return false
}

// SendRaw sends the bytes of a whole request.
func (n *NginxServer) SendRaw(t testing.TB, text string) answer {
	t.Helper()
	c := n.Dial(t, n.Addr)
	defer c.Close()
	// nginx may answer, and close, before it has read all of a body; the answer is what counts.
	go io.WriteString(c, text)
	method, _, _ := strings.Cut(text, " ")
	answers := bufio.NewReader(c)
	for {
		response, err := http.ReadResponse(answers, &http.Request{Method: method})
		if err != nil {
			t.Fatalf("%.80q: %v", text, err)
		}
		if response.StatusCode != http.StatusContinue {
			return ReadAnswer(t, response)
		}
	}
}

// SendH2 is a sender over HTTP/2 with prior knowledge.
func (n *NginxServer) SendH2(t testing.TB, line, body string, header ...string) answer {
	t.Helper()
	transport := &http.Transport{
		Protocols:          new(http.Protocols),
		DisableCompression: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return n.Dial(t, n.addrH2), nil
		},
	}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	method, target, _ := strings.Cut(line, " ")
	request, err := http.NewRequest(method, "http://site.test"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		request.Body = io.NopCloser(strings.NewReader(body))
		request.ContentLength = int64(len(body))
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			request.Host = value
		}
		request.Header.Add(name, value)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return ReadAnswer(t, response)
}

func ReadAnswer(t testing.TB, response *http.Response) answer {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}
