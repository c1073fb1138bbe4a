package tests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"authz/limits"
)

// matcher is an nginx whose Lua answers requests as `authz explain --json` does: POST /NAME with a
// request a line is answered by the limits file NAME.
type matcher struct{ *nginxServer }

func startMatcher(t testing.TB, files map[string]string) matcher {
	t.Helper()
	compiled := map[string]string{}
	for name, toml := range files {
		compiled[name] = string(compile(t, toml).JSON())
	}
	return matcher{startPackNginx(t, 1, `
		server {
			listen LISTEN;
			client_max_body_size 0;
			client_body_buffer_size 64m;
			location / {
				content_by_lua_block { require("explain")(ngx.config.prefix() .. ngx.var.uri) }
			}
		}`, compiled)}
}

func (m matcher) explain(t testing.TB, name string, requests []byte) []string {
	t.Helper()
	got := m.send(t, "POST /"+name, string(requests))
	if got.status != 200 {
		t.Fatalf("nginx answers %d %s, its log:\n%s", got.status, got.body, m.read(t, "error.log"))
	}
	return strings.Split(strings.TrimSuffix(got.body, "\n"), "\n")
}

func compile(t testing.TB, toml string) *limits.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(path, []byte(toml), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := limits.Load("authz", path)
	if err != nil {
		t.Fatalf("%v\n%s", err, toml)
	}
	return set
}

// explain is what the built authz answers to the requests.
func explainInGo(t testing.TB, toml string, requests []byte) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(path, []byte(toml), 0o644); err != nil {
		t.Fatal(err)
	}
	authz, err := builtAuthz()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(authz, "explain", "--json", "--limits", path)
	cmd.Stdin = bytes.NewReader(requests)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("authz explain: %v\n%s", err, said.String())
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

var builtAuthz = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "authz")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-o", dir+"/authz", "../cmd/authz").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir + "/authz", nil
})

// TestTheLuaMatcherAnswersTenThousandRandomRequestsAsGoDoes asks both sides the same, about limits
// files that are as random; the answers are the same to the byte.
func TestTheLuaMatcherAnswersTenThousandRandomRequestsAsGoDoes(t *testing.T) {
	const filesOf, requestsOf = 24, 500
	files, requests := map[string]string{}, map[string][]byte{}
	for i := range filesOf {
		r := dice{rand.New(rand.NewPCG(7, uint64(i)))}
		name := fmt.Sprintf("limits%02d", i)
		files[name] = r.limitsFile(i % 4)
		for range requestsOf {
			requests[name] = append(requests[name], r.request().line()...)
		}
	}
	m := startMatcher(t, files)
	verdicts := map[string]int{}
	for name, toml := range files {
		lines := bytes.Split(requests[name], []byte("\n"))
		want, got := explainInGo(t, toml, requests[name]), m.explain(t, name, requests[name])
		if len(want) != requestsOf || len(got) != requestsOf {
			t.Fatalf("%d answers of Go and %d of Lua, want %d", len(want), len(got), requestsOf)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s\nLua answers\n%s\nwant\n%s\nby\n%s", lines[i], got[i], want[i], toml)
			}
			verdicts[strings.SplitN(want[i], ",", 2)[0]]++
			verdicts["checks"] += strings.Count(want[i], `"redis_key"`)
		}
	}
	t.Log(verdicts)
	for _, verdict := range []string{"none", "allow", "deny", "limits"} {
		if n := verdicts[`{"verdict":"`+verdict+`"`]; n < 500 {
			t.Errorf("%d requests of verdict %s, want enough to compare", n, verdict)
		}
	}
}

// TestTheLuaMatcherReadsBytesThatAreNoTextAsGoDoes has what JSON cannot say: headers, hosts and targets
// of any bytes.
func TestTheLuaMatcherReadsBytesThatAreNoTextAsGoDoes(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(8, 0))}
	toml := r.limitsFile(1)
	var requests []packRequest
	var lines []byte
	odd := 0
	for range 2000 {
		q := r.rawRequest()
		line := q.line()
		if !utf8.Valid(line) {
			odd++
		}
		requests, lines = append(requests, q), append(lines, line...)
	}
	got := startMatcher(t, map[string]string{"limits": toml}).explain(t, "limits", lines)
	set := compile(t, toml)
	for i, q := range requests {
		if want := q.explain(set); got[i] != want {
			t.Fatalf("%q\nLua answers\n%s\nwant\n%s\nby\n%s", q.line(), got[i], want, toml)
		}
	}
	if odd < 500 {
		t.Errorf("%d requests that are no UTF-8, want enough to compare", odd)
	}
}

// A packRequest is a request that both sides are asked about. Its texts may be of any bytes.
type packRequest struct {
	method, host, uri, ip, zone string
	headers                     []packHeader
}

type packHeader struct {
	name  string
	lines []string
}

// line is the request as `authz explain --json` reads it, if it is UTF-8.
func (q packRequest) line() []byte {
	var b []byte
	quote := func(s string) {
		b = append(b, '"')
		for _, c := range []byte(s) {
			if c < ' ' || c == '"' || c == '\\' {
				b = fmt.Appendf(b, "\\u%04x", c)
			} else {
				b = append(b, c)
			}
		}
		b = append(b, '"')
	}
	for i, s := range []string{"method", q.method, "host", q.host, "uri", q.uri, "ip", q.ip, "zone", q.zone} {
		b = append(b, "{:,:,:,:,:"[i])
		quote(s)
	}
	b = append(b, `,"headers":`...)
	separator := byte('{')
	for _, h := range q.headers {
		b = append(b, separator)
		quote(h.name)
		b = append(b, ':')
		for i, line := range h.lines {
			b = append(b, "[,"[min(i, 1)])
			quote(line)
		}
		b = append(b, ']')
		separator = ','
	}
	if len(q.headers) == 0 {
		b = append(b, separator)
	}
	return append(b, "}}\n"...)
}

// explain is what Go finds for the request, written as `authz explain --json` does.
func (q packRequest) explain(set *limits.Set) string {
	const line = `{"limit":"%s","key":"%s","redis_key":"%s","algorithm":"%s","limit_count":%d,"window_us":%d,` +
		`"burst":%d,"offset_us":%d,"cost":%d,"shadow":%t,"on_error":"%s"}`
	path, query, ok := limits.Target(nil, []byte(q.uri))
	if !ok {
		return `{"verdict":"deny","rule":"","checks":[]}`
	}
	addr, _ := limits.ParseAddr([]byte(q.ip))
	a := limits.Attrs{Method: []byte(q.method), Host: []byte(q.host), Zone: []byte(q.zone), IP: addr, Path: path, Query: query}
	for _, name := range set.HeaderNames() {
		var value []byte
		for _, h := range q.headers {
			if strings.EqualFold(h.name, name) {
				value = []byte(strings.Join(h.lines, ", "))
			}
		}
		a.Headers = append(a.Headers, value)
	}
	for _, h := range q.headers {
		if strings.EqualFold(h.name, "cookie") {
			a.Cookie = []byte(strings.Join(h.lines, "; "))
		}
	}
	var m limits.Match
	set.Match(&a, &m)
	var checks []string
	for _, c := range m.Checks {
		l, r := c.Limit, c.Rate
		checks = append(checks, fmt.Sprintf(line, l.Name, c.Identity(), c.Key, l.Algorithm, r.Count, r.WindowUS,
			r.Burst, l.OffsetUS, c.Cost, l.Shadow, l.OnError))
	}
	return fmt.Sprintf(`{"verdict":"%s","rule":"%s","checks":[%s]}`, m.Verdict, m.Rule, strings.Join(checks, ","))
}
