package service

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/valyala/fasthttp"
)

// A headerCase is what a proxy sends about one request, and what must come of it.
type headerCase struct {
	name, line    string
	proxy, client []string
	want          string
}

func headerCases(t *testing.T, path string) (cases []headerCase) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, all, _ := strings.Cut(string(text), "\n== ")
	for part := range strings.SplitSeq(all, "\n== ") {
		sent, want, ok := strings.Cut(part, "\n----\n")
		lines := strings.Split(sent, "\n")
		if !ok || len(lines) < 3 {
			t.Fatalf("%s: %q is no case", path, part)
		}
		c := headerCase{name: lines[0], line: lines[1], want: strings.TrimSuffix(want, "\n")}
		for _, line := range lines[2:] {
			if own, ok := strings.CutPrefix(line, "+ "); ok {
				c.client = append(c.client, own)
			} else {
				c.proxy = append(c.proxy, line)
			}
		}
		cases = append(cases, c)
	}
	return cases
}

// No header that a client adds changes what a proxy says of a request: the proxy's own values win, or the request is
// malformed.
func TestNoHeaderOfAClientSpeaksForAProxy(t *testing.T) {
	limits, err := os.ReadFile("../../tests/vectors/headers/limits.toml")
	if err != nil {
		t.Fatal(err)
	}
	s := serviceFor(t, string(limits))
	q := &request{}
	s.requests.New = func() any { return q }
	outcome := func(peer net.Addr, line string, headers ...string) string {
		t.Helper()
		*q = request{}
		ctx := asked(t, peer, append([]string{line + " HTTP/1.1"}, headers...)...)
		s.handle(ctx)
		return outcomeOf(s, q, ctx)
	}
	paths, err := filepath.Glob("../../tests/vectors/headers/*.txt")
	if err != nil || len(paths) != 5 {
		t.Fatalf("%v, %v", paths, err)
	}
	n := 0
	for _, path := range paths {
		for _, c := range headerCases(t, path) {
			n++
			at := filepath.Base(path) + ": " + c.name
			for _, peer := range []net.Addr{loopback, &net.UnixAddr{}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5)}} {
				clientFirst := append(append([]string{}, c.client...), c.proxy...)
				clientLast := append(append([]string{}, c.proxy...), c.client...)
				for _, headers := range [][]string{clientFirst, clientLast} {
					if got := outcome(peer, c.line, headers...); got != c.want {
						t.Errorf("%s, from %v: got\n%s\nwant\n%s", at, peer, got, c.want)
					}
				}
			}
			alone := attributes(outcome(loopback, c.line, c.proxy...))
			if got := attributes(c.want); got != alone && got != "" && got != withoutAddress(alone) {
				t.Errorf("%s: %s, want that of the proxy's headers alone, %s", at, got, alone)
			}
			stranger := &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7)}
			got := outcome(stranger, c.line, append(c.proxy, c.client...)...)
			if !strings.HasPrefix(got, "403 ") && got != "404" {
				t.Errorf("%s, from a stranger: %s, want it blocked", at, got)
			}
		}
	}
	if n < 40 {
		t.Errorf("%d cases, want at least 40", n)
	}
}

// outcomeOf is what the client is to see, the attributes and the rules; or the flaw and the header to blame.
func outcomeOf(s *Service, q *request, ctx *fasthttp.RequestCtx) string {
	status := string(ctx.Response.Header.PeekBytes(headerStatus))
	if status == "" {
		return fmt.Sprint(ctx.Response.StatusCode())
	}
	if f, _ := q.resolve(s.peers.trusted); f != flawless {
		return strings.TrimSpace(status + " " + f.String() + " " + q.blamed(f))
	}
	a, m := &q.attrs, &q.match
	ip := "unknown"
	if a.IP.IsValid() {
		ip = a.IP.String()
	}
	rules := strings.TrimSpace(m.Verdict.String() + " " + m.Rule)
	for i := range m.Checks {
		rules += fmt.Sprintf(" %s{%s}", m.Checks[i].Limit.Name, m.Checks[i].Identity())
	}
	return fmt.Sprintf("%s\n%s %s %s ?%s ip=%s zone=%s\n%s", status, a.Method, a.Host, a.Path, a.Query, ip, a.Zone, rules)
}

// attributes is the second line of an outcome, "" for a flaw.
func attributes(outcome string) string {
	lines := strings.Split(outcome, "\n")
	if len(lines) < 2 {
		return ""
	}
	return lines[1]
}

// withoutAddress is attributes of a client whose address is unknown.
func withoutAddress(attributes string) string {
	before, rest, _ := strings.Cut(attributes, " ip=")
	_, after, _ := strings.Cut(rest, " ")
	return before + " ip=unknown " + after
}
