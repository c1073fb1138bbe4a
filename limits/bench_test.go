package limits

import (
	"fmt"
	"strings"
	"testing"
)

// apiLimits is a file with this many limits, of which a request of apiRequest meets three, and this
// many overrides of one of them, for keys and for networks.
func apiLimits(t testing.TB, limits, overrides int) *Set {
	t.Helper()
	var text strings.Builder
	text.WriteString(`
		[limit.login]
		match     = { path = "/login", method = "POST" }
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "5/m"
		[limit.address]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "100/s"
		[limit.plan]
		match     = { host = "api.example.com", path = "/v1/**" }
		key       = ["header:X-API-Key"]
		missing   = "ip"
		algorithm = "token_bucket"
		rate      = "100/s"
		`)
	for i := range limits - 3 {
		fmt.Fprintf(&text, "[limit.service-%d]\nmatch = { path = \"/v1/service-%d/**\" }\nkey = [\"ip\", \"path\"]\nalgorithm = \"fixed_window\"\nrate = \"1000/m\"\n", i, i)
	}
	for i := range overrides {
		if i%2 == 0 {
			fmt.Fprintf(&text, "[override.plan.\"key-%d\"]\nrate = \"1000/s\"\n", i)
		} else {
			fmt.Fprintf(&text, "[override.address.\"10.%d.%d.%d\"]\nrate = \"1000/s\"\n", i>>16, i>>8&255, i&255)
		}
	}
	return load(t, text.String())
}

func apiRequest(t testing.TB, set *Set) *Attrs {
	t.Helper()
	return newAttrs(t, set, "GET http://api.example.com/v1/service-5/items/7?page=2", "X-API-Key: key-8", "ip: 10.0.0.9")
}

func BenchmarkMatch(b *testing.B) {
	for _, size := range []struct{ limits, overrides int }{{10, 0}, {1000, 0}, {10, 50000}} {
		b.Run(fmt.Sprintf("limits=%d/overrides=%d", size.limits, size.overrides), func(b *testing.B) {
			set := apiLimits(b, size.limits, size.overrides)
			a, m := apiRequest(b, set), new(Match)
			b.ReportAllocs()
			for b.Loop() {
				set.Match(a, m)
			}
			if len(m.Checks) != 3 {
				b.Fatal(m.show())
			}
		})
	}
}

// BenchmarkMatchWithASchedule has a clock that stands, which nearly all requests see, and one that is in
// another period each time.
func BenchmarkMatchWithASchedule(b *testing.B) {
	for _, stepUS := range []int64{0, 5 * minuteUS * 60} {
		b.Run(fmt.Sprintf("step=%s", duration(stepUS)), func(b *testing.B) {
			set := scheduled(b, `days = ["mon", "tue"]`, `times = ["09:00-18:00", "20:00-21:00"]`, `zone = "Europe/Berlin"`)
			a, m := newAttrs(b, set, "GET http://a/"), new(Match)
			a.NowUS = utc(b, "2026-01-01T00:00:00Z")
			b.ReportAllocs()
			for b.Loop() {
				a.NowUS += stepUS
				set.Match(a, m)
			}
		})
	}
}

func BenchmarkTarget(b *testing.B) {
	target := []byte("/api//v1/./items/%41%2f7/../8/?page=2#top")
	var path []byte
	b.ReportAllocs()
	for b.Loop() {
		path, _, _ = Target(path, target)
	}
}

func TestARequestIsMatchedWithoutAllocating(t *testing.T) {
	set := apiLimits(t, 1000, 1000)
	wide := load(t, keyed("a", "ip", "path", "path:raw", "host", "method", "zone", "header:X-A", "header:Authorization", "cookie:c", "query:q")+`
		match = { path = "/**", ip = "::/0", header = { X-A = "*" }, query = { q = "*" } }
		unless = { cookie = { c = "none" } }
		cost = "header:X-Cost"
		cost_max = 5
		[override.a."2001:db8::/32|/**|/|h|GET|z|a|b|c|d"]
		rate = "6/m"`)
	sales := load(t, keyed("a", "ip")+`
		[schedule.a.s]
		rate = "6/m"
		days = ["mon", "tue"]
		times = ["09:00-18:00", "20:00-21:00"]
		zone = "Europe/Berlin"`)
	m, n := new(Match), new(Match)
	a := apiRequest(t, set)
	now, o := newAttrs(t, sales, "GET http://a/"), new(Match)
	w := newAttrs(t, wide, "GET http://H.Example.com:80/a%20b/"+strings.Repeat("c", 100)+"?q=%20x&q=2&%71=3", "ip: 2001:db8::1", "zone: z", "X-A: a",
		"Authorization: Bearer x", "Cookie: a=b; c=d", "X-Cost: 4")
	trusted, err := ParsePrefixes([]string{"10.0.0.0/8", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	target := []byte("/a//b/../%41?x#y")
	forwarded := []byte("203.0.113.9:4711, [2001:db8::1]:80, ::ffff:10.0.0.1, fe80::1%eth0")
	var path []byte
	none := func(what string, f func()) {
		t.Helper()
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", what, n)
		}
	}
	none("Match", func() { set.Match(a, m) })
	none("Match of all kinds of part", func() { wide.Match(w, n) })
	none("Match by the hour", func() { now.NowUS += minuteUS * 60; sales.Match(now, o) })
	none("Target", func() { path, _, _ = Target(path, target) })
	none("ForwardedFor", func() { ForwardedFor(forwarded, trusted) })
	if m.show() == "none" || !strings.HasPrefix(n.show(), "limits a{*") {
		t.Errorf("%s, and %s", m.show(), n.show())
	}
}
