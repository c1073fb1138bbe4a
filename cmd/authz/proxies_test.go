package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/limits"
)

// A client's forged headers change nothing beside those of its proxy: the row's own values win, or the request is
// malformed. The vectors are what each proxy sends; none of the requests is admitted by the allow rule that the forged
// headers aim at.
func TestNoHeaderOfAClientStandsInForOneOfItsProxy(t *testing.T) {
	s := serviceFor(t, `
		[limit.pay]
		match     = { path = "/v1/**" }
		key       = ["ip", "host", "zone"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "1000/d"
		[allow.probes]
		match = { path = "/healthz" }
		[allow.self]
		match = { ip = "127.0.0.0/8" }`)
	files, err := filepath.Glob("../../tests/vectors/headers/*.txt")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	cases := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
			title, sent, want := readProxyCase(block)
			if len(sent) == 0 {
				continue // the file's own comment
			}
			cases++
			for _, peer := range []net.Addr{loopback, &net.UnixAddr{}} {
				if got := judged(t, s, peer, sent); got != want {
					t.Errorf("%s: %s, by %s:\ngot  %s\nwant %s", filepath.Base(file), title, peer.Network(), got, want)
				}
			}
		}
	}
	if cases < 40 {
		t.Errorf("%d header sets, want 40 at least", cases)
	}
}

// readProxyCase cuts a case into its title, the lines of its request and the result.
func readProxyCase(block string) (title string, sent []string, want string) {
	for line := range strings.SplitSeq(block, "\n") {
		switch text, isSent := strings.CutPrefix(line, "> "); {
		case isSent:
			sent = append(sent, text)
		case strings.HasPrefix(line, "# "):
			title = line[2:]
		default:
			want = line
		}
	}
	return title, sent, want
}

// judged is how a request is read and matched: "METHOD host path zone=zone ip=ip: verdict", or why it is malformed. The
// whole service answers it first.
func judged(t *testing.T, s *service, peer net.Addr, sent []string) string {
	ctx := asked(t, peer, sent...)
	s.handle(ctx)
	status := string(ctx.Response.Header.Peek("X-Authz-Status"))
	ctx = asked(t, peer, sent...)
	q := &request{rules: s.rules.Load()}
	q.read(&ctx.Request.Header, routeOf(ctx.Request.Header.RequestURI()), true)
	if f := q.resolve(); f != flawless {
		if status != "403" {
			t.Errorf("%q: status %s of what is malformed, want 403", sent, status)
		}
		return f.String()
	}
	if status != "200" {
		t.Errorf("%q: status %s, want 200", sent, status)
	}
	a := &q.attrs
	q.rules.set.Match(a, &q.match)
	ip := "unknown"
	if a.IP.IsValid() {
		ip = a.IP.String()
	}
	if v := q.match.Verdict; v == limits.Limits && !strings.Contains(string(q.match.Checks[0].Identity()), "ip="+ip) {
		t.Errorf("%q: key %s, want ip=%s in it", sent, q.match.Checks[0].Identity(), ip)
	}
	return fmt.Sprintf("%s %s %s zone=%s ip=%s: %s", a.Method, a.Host, a.Path, a.Zone, ip, q.match.Verdict)
}
