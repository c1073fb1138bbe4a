package service

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

// A pathNginx is a real nginx that answers with its $request_uri, $args and $uri.
type pathNginx struct {
	*rig.NginxServer
	conn   net.Conn
	reader *bufio.Reader
}

// The first two have no space, a raw one being refused: what follows is $uri, byte for byte.
func startPathNginx(t *testing.T) *pathNginx {
	t.Helper()
	return &pathNginx{NginxServer: rig.StartNginx(t, `
		server {
			listen LISTEN;
			access_log off;
			keepalive_requests 1000000;
			large_client_header_buffers 4 64k;
			location / { return 200 "$request_uri $args $uri"; }
		}`, nil)}
}

// ask sends the target as it is; ok is false when nginx answers 400. handedOn is the target as nginx
// gives it to authz: without the http://host that it may begin with.
func (n *pathNginx) ask(t *testing.T, target string) (handedOn, path, query string, ok bool) {
	t.Helper()
	if n.conn == nil {
		n.conn = n.Dial(t, n.Addr)
		n.reader = bufio.NewReader(n.conn)
	}
	fmt.Fprintf(n.conn, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target)
	answer, err := http.ReadResponse(n.reader, nil)
	if err != nil {
		t.Fatalf("%q: %s", target, err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatalf("%q: %s", target, err)
	}
	if answer.Close {
		n.conn.Close()
		n.conn = nil
	}
	switch answer.StatusCode {
	case 200:
		said := strings.SplitN(string(body), " ", 3)
		return said[0], said[2], said[1], true
	case 400:
		return target, "", "", false
	}
	t.Fatalf("%q: nginx answers %s", target, answer.Status)
	return "", "", "", false
}

// The spellings that people and scanners send, and those that took a second look.
var spellings = []string{
	"/", "//", "///", "/login", "/login/", "/login//", "//login", "/./login", "/%6cogin", "/%6Cogin",
	"/login?x=1", "/a/../login", "/LOGIN", "/login#x", "/login?#", "/login#?", "/?", "/#", "#", "http://a?", "http://a?x", "http://a?x=1#y", "http://a?/b", "http://a?x?y",
	"/.", "/..", "/...", "/./", "/../", "/.../", "/a/.", "/a/..", "/a/...", "/a/./", "/a/../", "/a/b/..", "/a/b/../..", "/a/../..",
	"/a/b/../../..", "/a/b/../../c", "/a//../b", "/a//..//b", "/a/%2e%2e/b", "/a/.%2e/b", "/a/%2e./b", "/%2e", "/%2e%2e", "/%2E%2E/a",
	"/a%2fb", "/a%2Fb", "/a%2f%2fb", "/a%2f..%2fb", "/a%2f../b", "/%2f", "/%2f%2f", "/a%2f", "/a/%2f", "/a%2f/", "%2flogin",
	"/a%3fb", "/a%3Fb=1?c", "/a%23b", "/a%23b#c", "/a%25b", "/a%2541", "/%252e%252e/a", "/a%25", "/a%2525", "/%25%32%65",
	"/a%00", "/a%00b", "/%00", "/a%zz", "/a%z", "/a%", "/a%2", "/a%2z", "/a%z2", "/a%%41", "/a%4%31", "/%", "/?%zz", "/?%00", "/#%zz", "/a#%00",
	"/a b", "/a\tb", "/a\x01b", "/a\x7fb", "/a\x80b", "/a\xffb", "/caf\xc3\xa9", "/caf%c3%a9", "/caf%e9", "/a?b c", "/a?b\x01", "/a#b c", "/a#\x7f",
	"/a%01b", "/a%0ab", "/a%0d%0ab", "/a%20b", "/a%7fb", "/a%ffb", "/a+b", "/a%2bb", "/a?b+c", "/a?b%20c",
	"/..;/", "/..;/a", "/a/..;/b", "/a;b", "/;/a", "/a/.;/b", "/.a", "/..a", "/a..", "/a.", "/a./b", "/a../b", "/a.%2f", "/a.b/../c",
	"/\\", "/a\\b", "/a\\..\\b", "/a/\\../b", "/%5c", "/a%5c..%5cb", "/*", "/**", "/a*b", "/|", "/{a}", "/\"a\"", "/<a>", "/^a`", "/~a",
	"/a??b", "/a?b?c", "/a?b#c#d", "/a?b/../c", "/a?b//c", "/a?/..", "//?a", "/./?a", "/../?a", "/a/..?b", "/a/../?b", "/a/..#b", "/a/.?b", "/.?b", "/.#b", "/..?", "/..#",
	"*", "login", "login/", "./login", "../login", ".", "a:b", "/a:b", "/http://a/b", "://a", ":", "@", "/@", "&", "/&a=b", "/=",
	"http://a", "http://a/", "http://a/b", "http://a//b", "http://a?b", "http://a?b/c", "http://a#b", "http://a/b?c#d", "http://a:80", "http://a:80/b", "http://a:/b", "http://a:?b",
	"http://a:b/c", "http:///b", "http://", "http:/", "http:", "http", "http:/a/b", "https://a/b", "HTTP://A/B", "ftp://a/b", "a1://b/c", "a+b://c/d", "1a://b/c", "a-b://c", "a.b://c",
	"http://a.b/c", "http://a..b/c", "http://.a/b", "http://a./b", "http://./b", "http://../b", "http://a_b/c", "http://a-b/c", "http://a%41/b", "http://a@b/c", "http://a:1@b/c", "http://\xff/a",
	"http://[::1]/a", "http://[::1]:80/a", "http://[::1]", "http://[::1]?a", "http://[::1/a", "http://[]/a", "http://[a]b/c", "http://[::1]a/b", "http://[v1.a]/b", "http://[::1%25a]/b", "http://[a_b~!$&'()*+,;=-.]/b",
	"http://a/../b", "http://a/%2e%2e", "http://a/%00", "http://a/b/..", "http://a b/c", "http://a\x01/b", "http://a:80#b", "http://a:99999999999999999999/b",
	"http://a/b/", "http://a.:80/b", "http://a:80:80/b", "http://a?b#c", "http://a?", "http://a/?", "http://*/b", "http://~/a", "http://[::1]:a/b", "http://[::1]x:80/b",
	"/" + strings.Repeat("a/", 2000), "/" + strings.Repeat("../", 2000), "/" + strings.Repeat("a/", 2000) + strings.Repeat("../", 2000), "/" + strings.Repeat("%2e%2f", 500),
}

// pathPieces are put together in all ways: what is special to a path, raw and encoded.
var pathPieces = []string{"/", ".", "..", "a", "%2f", "%2e", "%2E%2e", "?", "#", "%25", "%3f", "%23", "%00", "%", "\\", ";", "+", "\xe9"}

// pathCorpus is every spelling that the two are compared on.
func pathCorpus() []string {
	all := append([]string{}, spellings...)
	for _, a := range pathPieces {
		for _, b := range pathPieces {
			all = append(all, "/"+a+b, "/x/"+a+b+"/y", "/x"+a+b)
			for _, c := range pathPieces[:9] {
				all = append(all, "/x/"+a+b+c)
			}
		}
	}
	for c := range 256 {
		if c != '\r' && c != '\n' && c != ' ' { // these end the target
			all = append(all, "/a"+string([]byte{byte(c)})+"b", "/a?"+string([]byte{byte(c)}), "/a#"+string([]byte{byte(c)}),
				"http://a"+string([]byte{byte(c)})+"b/c", "http://[:"+string([]byte{byte(c)})+"]/c")
			if c != '?' { // nginx hands such a target on, but takes it only after http://host
				all = append(all, string([]byte{byte(c)})+"/b")
			}
		}
		all = append(all, fmt.Sprintf("/a%%%02xb", c), fmt.Sprintf("/a/%%%02X", c))
	}
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := append(pathPieces, "/", "/", "/..", "/.", "b", "%2F..", "%5c", "%7f", "%0a", "~", "=", "&", ":", "@", "*", "|", "%c3%a9", "%e", "%g1", "http://a")
	for range 4000 {
		s := "/"
		if random.IntN(20) == 0 {
			s = "http://h"
		}
		for range 1 + random.IntN(12) {
			s += alphabet[random.IntN(len(alphabet))]
		}
		all = append(all, s)
	}
	return all
}

func TestAPathIsWhatNginxMakesOfIt(t *testing.T) {
	nginx := startPathNginx(t)
	compared, refused := 0, 0
	var path []byte
	for _, target := range pathCorpus() {
		handedOn, wantPath, wantQuery, wantOK := nginx.ask(t, target)
		if len(wantPath) > 1 {
			wantPath = strings.TrimSuffix(wantPath, "/")
		}
		var query []byte
		var ok bool
		path, query, ok = limits.Target(path, []byte(handedOn))
		if ok != wantOK || ok && (string(path) != wantPath || string(query) != wantQuery) {
			t.Errorf("%q, handed on as %q: path %q, query %q, %v; nginx has %q, %q, %v", target, handedOn, path, query, ok, wantPath, wantQuery, wantOK)
		}
		if compared++; !wantOK {
			refused++
		}
	}
	if compared < 500 || refused < 100 || refused > compared/2+1000 {
		t.Errorf("%d spellings of which nginx refused %d, want a corpus that tells something", compared, refused)
	}
	t.Logf("%d spellings, %d of them refused", compared, refused)
}

func TestNginxAnswersLosslessly(t *testing.T) {
	nginx := startPathNginx(t)
	handedOn, path, query, ok := nginx.ask(t, "http://a/%0d%0a%20x%ff?a%20b#c")
	if handedOn != "/%0d%0a%20x%ff?a%20b#c" || path != "/\r\n x\xff" || query != "a%20b" || !ok {
		t.Errorf("handed on as %q, path %q, query %q, %v", handedOn, path, query, ok)
	}
}
