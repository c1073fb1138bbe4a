package limits

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// Filing rules under traits changes what is looked at, never what is found: random sets answer random
// requests as they do when every rule is asked.
func TestTheIndexFindsAllThatMeets(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	one := func(choices ...string) string { return choices[random.IntN(len(choices))] }
	some := func(make func() string) string {
		list := make()
		for random.IntN(3) == 0 {
			list += ", " + make()
		}
		return "[" + list + "]"
	}
	path := func() string {
		s := ""
		for range random.IntN(4) {
			s += "/" + one("a", "b", "c", "a", "b", "ab", "*", "a*", "*b", "**")
		}
		return "/" + strings.TrimPrefix(s, "/")
	}
	quoted := func(make func() string) func() string { return func() string { return fmt.Sprintf("%q", make()) } }
	host := func() string {
		return one("a", "b.a", "*.a", "**.a", "a.**", "*", "x*.a", "c.b.a", "c.*.a", "**.b.**", "**")
	}
	value := func() string {
		return one("a", "b", "ab", "a*", "*b", "*", "*a*", "abcdefghijklmnopqrstuvwxyz0123456789*")
	}
	address := func() string {
		return one("10.0.0.1", "10.0.0.0/8", "10.0.0.0/30", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::1")
	}
	cond := func() string {
		var c []string
		add := func(key, list string) {
			if random.IntN(3) == 0 {
				c = append(c, key+" = "+list)
			}
		}
		add("path", some(quoted(path)))
		add("host", some(quoted(host)))
		add("method", some(quoted(func() string { return one("GET", "POST", "P*", "*T") })))
		add("zone", some(quoted(value)))
		add("ip", some(quoted(address)))
		for _, kind := range []string{"header", "query", "cookie"} {
			add(kind, "{ "+one("x", "y")+" = "+some(quoted(value))+" }")
		}
		if c == nil {
			return `{ path = "/**" }`
		}
		return "{ " + strings.Join(c, ", ") + " }"
	}
	found := 0
	for range 25 {
		var text strings.Builder
		for i := range 1 + random.IntN(150) {
			kind := one("limit", "limit", "limit", "limit", "limit", "limit", "allow", "deny")
			if kind != "limit" && random.IntN(5) > 0 {
				continue // or they would hide the limits
			}
			fmt.Fprintf(&text, "[%s.n%d]\n", kind, i)
			if kind == "limit" {
				text.WriteString("key = [\"header:x\"]\nmissing = \"share\"\nalgorithm = \"fixed_window\"\nrate = \"1/s\"\n")
			}
			if random.IntN(10) > 0 {
				text.WriteString("match = " + cond() + "\n")
			}
			if random.IntN(4) == 0 {
				text.WriteString("unless = " + cond() + "\n")
			}
		}
		set, asksAll := load(t, text.String()), load(t, text.String())
		for i := range asksAll.rules {
			asksAll.index.always[i/64] |= 1 << (i % 64)
		}
		m, all := new(Match), new(Match)
		for range 100 {
			request := fmt.Sprintf("%s http://%s/%s?%s=%s&%s=b", one("GET", "POST", "PUT"), one("a", "b.a", "c.b.a", "x1.a", "q"),
				strings.ReplaceAll(path(), "*", "z"), one("x", "y"), one("a", "ab", "b"), one("x", "y"))
			lines := []string{"x: " + one("", "a", "ab", "zz"), "y: " + one("", "b"), "zone: " + one("", "a", "bb", "ab"),
				"ip: " + one("10.0.0.1", "10.0.0.2", "10.9.9.9", "9.9.9.9", "2001:db8::1", "2001:db9::1"), "cookie: x=" + one("a", "b") + "; y=" + one("", "ab")}
			a := newAttrs(t, set, request, lines...)
			set.Match(a, m)
			asksAll.Match(a, all)
			if m.show() != all.show() {
				t.Fatalf("%s %q\nfound %s\n want %s\nin\n%s", request, lines, m.show(), all.show(), text.String())
			}
			found += len(m.Checks)
		}
	}
	if found < 4000 {
		t.Errorf("%d limits met 2500 requests, want so many that it tells something", found)
	}
}

// A thousand of each shape: a request has to look at a few of them only.
func TestARequestLooksAtFewOfAThousandRules(t *testing.T) {
	try := func(match string, request string, lines ...string) {
		t.Helper()
		var text strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&text, "[limit.n%d]\nmatch = { "+match+" }\n"+everybody, i, i)
		}
		set := load(t, text.String())
		m := new(Match)
		set.Match(newAttrs(t, set, request, lines...), m)
		looked := 0
		for i := range set.rules {
			looked += int(m.bits[i/64] >> (i % 64) & 1)
		}
		if got := m.show(); got != "limits n7{}" || looked > 2 {
			t.Errorf("%s: %s, %d rules looked at", match, got, looked)
		}
	}
	try(`path = "/service-%d"`, "GET http://h/service-7")
	try(`path = ["/service-%d", "/static"]`, "GET http://h/service-7")
	try(`path = "/api/service-%d/**", host = "h", method = "GET"`, "GET http://h/api/service-7/a/b")
	try(`path = "/*/service-%d/items/*", method = ["GET", "POST"]`, "GET http://h/v1/service-7/items/9")
	try(`path = "/**/service-%d"`, "GET http://h/a/b/service-7")
	try(`path = "/user-%d-*"`, "GET http://h/user-7-x")
	try(`host = "*.tenant%d.example.com", path = "/login"`, "GET http://www.tenant7.example.com/login")
	try(`host = "tenant%d.example.com", path = "/login/**"`, "GET http://tenant7.example.com/login/x")
	try(`zone = "zone%d"`, "GET http://h/", "zone: zone7")
	try(`ip = "10.0.0.0/8", header = { X-Tenant = "t%d" }`, "GET http://h/", "X-Tenant: t7", "ip: 10.1.1.1")
	try(`path = "/login", query = { tenant = "t%d" }`, "GET http://h/login?tenant=t7")
	try(`path = "/login", cookie = { tenant = "t%d-*" }`, "GET http://h/login", "Cookie: tenant=t7-x")
	try(`path = "/login", ip = "2001:db8:%d::/48"`, "GET http://h/login", "ip: 2001:db8:7::1")
}

// No bytes that a client can send make Match panic or the index miss a rule.
func FuzzMatch(f *testing.F) {
	text := `
		[deny.d]
		match = { path = ["/**/.env", "/a*b*/**"], host = "**" }
		[allow.a]
		match = { path = "/free/*", header = { X-A = "a*" } }
		[limit.host]
		key = ["host", "path:raw"]
		algorithm = "fixed_window"
		rate = "5/m"
		match = { host = ["*.example.com", "**.example.org", "h", "x*"] }
		unless = { cookie = { c = "x*" } }
		[limit.query]
		key = ["query:q", "query:%", "path"]
		missing = "share"
		algorithm = "fixed_window"
		rate = "5/m"
		match = { path = ["/v1/**", "/**/q/**/r", "/"], query = { q = ["1", "a*c"] } }
		[limit.cookie]
		key = ["cookie:c", "header:Cookie", "zone", "method"]
		missing = "ip"
		algorithm = "fixed_window"
		rate = "5/m"
		match = { cookie = { c = "*", d = "1" } }`
	set, asksAll := load(f, text), load(f, text)
	asksAll.index.always[0] = 1<<len(asksAll.rules) - 1
	f.Add([]byte("/v1/a"), []byte("a.Example.com:80"), []byte("q=1&q=2"), []byte("c=1; d=1"))
	f.Add([]byte("/x/q/r"), []byte("h."), []byte("%71=a%62c"), []byte("c=; d =1"))
	f.Add([]byte(""), []byte(":"), []byte("%&%%=="), []byte("=;;=c"))
	m, all := new(Match), new(Match)
	f.Fuzz(func(t *testing.T, path, host, query, cookie []byte) {
		a := &Attrs{Method: host, Host: host, Zone: query, Path: path, Query: query, Cookie: cookie, Headers: [][]byte{cookie}}
		set.Match(a, m)
		asksAll.Match(a, all)
		if m.show() != all.show() {
			t.Errorf("found %s, want %s", m.show(), all.show())
		}
		for _, c := range m.Checks {
			if c.Cost != 1 || len(c.Key) > 250 {
				t.Errorf("%s costs %d and has a key of %d bytes", m.show(), c.Cost, len(c.Key))
			}
		}
	})
}
