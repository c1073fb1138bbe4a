package service

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

	"authz/internal/header"
	"authz/internal/route"
)

func TestHeadersAreFoundWhateverTheirCase(t *testing.T) {
	var r reading
	for i, name := range []string{"X-Api-Key", "Te", "X_api_key", "X-Api-Key-2", "X-Api-Key"} {
		r.add(name, i)
	}
	check := func(name, want string) {
		t.Helper()
		got := "nobody"
		if h := r.of([]byte(name)); h != nil {
			got = fmt.Sprint(h.name, h.values)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	check("X-API-Key", "X-Api-Key[0 4]")
	check("x-api-key", "X-Api-Key[0 4]")
	check("TE", "Te[1]")
	check("X_Api_Key", "X_api_key[2]")
	check("X-Api-Key-2", "X-Api-Key-2[3]")
	check("", "nobody")
	check("X-Api-Kex", "nobody")
	check("X Api Key", "nobody")
	check("X-Api-Key-22222222222", "nobody")
}

// linesOf is what nextLine and fasthttp make of a header block, if fasthttp takes it at all.
func linesOf(t testing.TB, block string) (ours, theirs string, taken bool) {
	var h fasthttp.RequestHeader
	if h.Read(bufio.NewReader(strings.NewReader("GET /nginx HTTP/1.1\r\n"+block+"\r\n"))) != nil {
		return "", "", false
	}
	for name, value, rest, folded, ok := header.NextLine(h.RawHeaders()); ok; name, value, rest, folded, ok = header.NextLine(rest) {
		if folded {
			return "", "", false
		}
		ours += fmt.Sprintf("%s=%q\n", strings.ToLower(string(name)), value)
	}
	for name, value := range h.AllInOrder() {
		theirs += fmt.Sprintf("%s=%q\n", strings.ToLower(string(name)), value)
	}
	return ours, theirs, true
}

func TestALineIsWhatFasthttpMakesOfIt(t *testing.T) {
	check := func(block, want string) {
		t.Helper()
		ours, theirs, taken := linesOf(t, block)
		if ours != want || theirs != want || !taken {
			t.Errorf("%q: ours\n%sfasthttp's\n%swant\n%s", block, ours, theirs, want)
		}
	}
	check("Host: a\r\nX: 1\r\nx:2\r\nY:\r\nZ: \t a b \t \r\n", "host=\"a\"\nx=\"1\"\nx=\"2\"\ny=\"\"\nz=\"a b\"\n")
	check("Host: a:80\r\nX: a:b\r\n", "host=\"a:80\"\nx=\"a:b\"\n")
	check("Host: a\nX: 1\r\n", "host=\"a\"\nx=\"1\"\n")
}

// Whatever fasthttp takes, we read as it does.
func FuzzHeaderLines(f *testing.F) {
	for _, block := range []string{"Host: a\r\nX: 1\r\n", "A:b\nC : d\r\n", "A: b\r\n c\r\n", "A:\r\r\n", ":\r\n", "A\r\n", "A: \x00\r\n", "a b: c\r\n", "X:\t\r\n\r\nY: z\r\n"} {
		f.Add(block)
	}
	f.Fuzz(func(t *testing.T, block string) {
		if ours, theirs, taken := linesOf(t, block); taken && ours != theirs {
			t.Errorf("%q: ours\n%sfasthttp's\n%s", block, ours, theirs)
		}
	})
}

// A value that goes on in the next line is put together, whoever does it.
func TestFoldedLinesAreReadByFasthttp(t *testing.T) {
	s := serviceFor(t, tokens)
	q := &request{rules: s.Rules.Load()}
	ctx := asked(t, loopback, "GET /nginx HTTP/1.1", "Host: authz", "X-API-Key: k", "X-Original-Method: GE", " T", "X-Api-Key: 2")
	q.read(&ctx.Request.Header, 0, true)
	if got := fmt.Sprintf("%q %q %q", q.values[route.Fields:], q.values[route.Method], q.twice); got != `["k, 2"] "GE T" ""` {
		t.Errorf("got %s", got)
	}
}
