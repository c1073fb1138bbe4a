package openresty

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"authz/limits"
	"authz/tests/rig"
)

// matcher is an nginx whose Lua answers requests as `authz explain --json` does.
type matcher struct{ *rig.NginxServer }

func startMatcher(t testing.TB) matcher {
	t.Helper()
	return matcher{rig.StartPackNginx(t, 1, `
		server {
			listen LISTEN;
			client_body_buffer_size 64m;
			client_max_body_size 64m;
			location / { content_by_lua_block { require("explain").lines(ngx.config.prefix() .. ngx.var.uri) } }
			location ~ ^/time/(\d+)/(.*) {
				content_by_lua_block { require("explain").time(ngx.config.prefix() .. ngx.var[2], tonumber(ngx.var[1])) }
			}
		}`, nil)}
}

// policy writes a limits file where nginx reads it, and returns its name there.
func (m matcher) policy(t testing.TB, file string) string {
	t.Helper()
	name := fmt.Sprintf("%x.json", sha256.Sum256([]byte(file)))
	m.Write(t, name, string(rig.Compile(t, file).JSON()))
	return name
}

// explain returns the lines that Lua answers to the requests by this limits file.
func (m matcher) explain(t testing.TB, file, requests string) []string {
	t.Helper()
	got := m.Send(t, "POST /"+m.policy(t, file), requests)
	if got.Status != 200 {
		t.Fatalf("nginx answers %d %s, its log:\n%s", got.Status, got.Body, m.Read(t, "error.log"))
	}
	return slices.Collect(strings.Lines(got.Body))
}

func TestARequestMeetsExactlyTheseRulesInLua(t *testing.T) {
	rig.RunMatchVectors(t, startMatcher(t).explain)
}

// TestTheLuaMatcherAnswersTenThousandRandomRequestsAsGoDoes asks both sides the same, about limits
// files that are as random; the answers are the same to the byte.
func TestTheLuaMatcherAnswersTenThousandRandomRequestsAsGoDoes(t *testing.T) {
	const files, requestsOfEach = 24, 500
	m := startMatcher(t)
	verdicts := map[string]int{}
	for seed := range files {
		r := dice{rand.New(rand.NewPCG(7, uint64(seed)))}
		file := r.limitsFile(seed % 4)
		var requests []byte
		for range requestsOfEach {
			requests = append(requests, r.request().line()...)
		}
		want, got := rig.Explain(t, file, string(requests)), m.explain(t, file, string(requests))
		if len(want) != requestsOfEach || len(got) != requestsOfEach {
			t.Fatalf("%d answers of Go and %d of Lua, want %d", len(want), len(got), requestsOfEach)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s\nLua answers\n%swant\n%sby\n%s", bytes.Split(requests, []byte("\n"))[i], got[i], want[i], file)
			}
			verdicts[strings.SplitN(want[i], ",", 2)[0]]++
		}
	}
	for _, verdict := range []string{"none", "allow", "deny", "limits"} {
		if n := verdicts[`{"verdict":"`+verdict+`"`]; n < 200 {
			t.Errorf("%d requests of verdict %s, want enough to compare", n, verdict)
		}
	}
}

// rawLimits shows how each side reads a request: every part is in a key of its own.
const rawLimits = `
	[defaults]
	ipv6_prefix = 128
	[limit.address]
	key = ["ip"]
	algorithm = "fixed_window"
	rate = "9007199254740991/d"
	cost = "header:X-Cost"
	cost_max = 9007199254740991
	[override.address."10.0.0.0/8"]
	rate = "9007199254740991/8s"
	[override.address."::/99"]
	rate = "9007199254740991/99s"
	[override.address."2001:db8::/32"]
	rate = "9007199254740991/32s"
	[override.address."2001:db8:1:2:ff00::/72"]
	rate = "9007199254740991/72s"
	[limit.host]
	key = ["host"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1/s"
	[limit.names]
	key = ["header:X-API-Key", "cookie:session", "query:q"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1/s"
	[limit.parts]
	key = ["method", "zone", "header:User-Agent", "query:a b"]
	missing = "share"
	algorithm = "fixed_window"
	rate = "1/s"
	[limit.path]
	key = ["path:raw"]
	algorithm = "fixed_window"
	rate = "1/s"
`

// TestTheLuaMatcherReadsBytesThatAreNoTextAsGoDoes has what JSON cannot say: requests of any bytes, and
// addresses that are none.
func TestTheLuaMatcherReadsBytesThatAreNoTextAsGoDoes(t *testing.T) {
	m := startMatcher(t)
	r := dice{rand.New(rand.NewPCG(8, 0))}
	odd, unknown := 0, 0
	for _, file := range []string{rawLimits, r.limitsFile(1)} {
		set := rig.Compile(t, file)
		var requests []packRequest
		var lines []byte
		for range 4000 {
			q := r.rawRequest()
			requests, lines = append(requests, q), append(lines, q.line()...)
		}
		got := m.explain(t, file, string(lines))
		for i, q := range requests {
			want := q.explain(set)
			if got[i] != want {
				t.Fatalf("%q\nLua answers\n%swant\n%sby\n%s", q.line(), got[i], want, file)
			}
			if !utf8.Valid(q.line()) {
				odd++
			}
			unknown += strings.Count(want, `"ip=unknown"`)
		}
	}
	if odd < 500 || unknown < 200 {
		t.Errorf("%d requests that are no UTF-8, %d without an address, want enough to compare", odd, unknown)
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
		return `{"verdict":"deny","rule":"","checks":[]}` + "\n"
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
			r.Burst, r.OffsetUS, c.Cost, l.Shadow, l.OnError))
	}
	return fmt.Sprintf(`{"verdict":"%s","rule":"%s","checks":[%s]}`+"\n", m.Verdict, m.Rule, strings.Join(checks, ","))
}
