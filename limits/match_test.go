package limits

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// newAttrs makes attributes of "METHOD http://host/path?query" and lines: a header, or "ip: " and
// "zone: ". A line of "cookie" is the Cookie header.
func newAttrs(t testing.TB, set *Set, request string, lines ...string) *Attrs {
	t.Helper()
	method, url, _ := strings.Cut(request, " ")
	host, target, ok := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
	if !ok {
		t.Fatalf("request %q, want METHOD http://host/path", request)
	}
	a := &Attrs{Method: []byte(method), Host: []byte(host), Headers: make([][]byte, len(set.HeaderNames()))}
	if a.Path, a.Query, ok = Target(nil, []byte("/"+target)); !ok {
		t.Fatalf("request %q has no path", request)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		switch name = strings.ToLower(name); name {
		case "ip":
			a.IP = netip.MustParseAddr(value)
		case "zone":
			a.Zone = []byte(value)
		case "cookie":
			a.Cookie = []byte(value)
		}
		for i, n := range set.HeaderNames() {
			if n == name {
				a.Headers[i] = []byte(value)
			}
		}
	}
	return a
}

// show writes a match as a line: the verdict and its rule, or for each check its limit, identity, cost
// (unless it is 1) and count (where an override has another than the limit).
func (m *Match) show() string {
	text := []string{m.Verdict.String()}
	switch {
	case m.Limit != nil && m.Limit.Name == m.Rule:
		text = append(text, "limit."+m.Rule)
	case m.Rule != "":
		text = append(text, m.Rule)
	}
	for _, c := range m.Checks {
		s := fmt.Sprintf("%s{%s}", c.Limit.Name, c.Identity())
		if c.Cost != 1 {
			s += fmt.Sprintf("*%d", c.Cost)
		}
		if c.Rate != &c.Limit.Rate {
			s += fmt.Sprintf("@%d", c.Rate.Count)
		}
		text = append(text, s)
	}
	for _, l := range m.Unlimited {
		text = append(text, "unlimited:"+l.Name)
	}
	for _, l := range m.Missing {
		text = append(text, "missing:"+l.Name)
	}
	return strings.Join(text, " ")
}

// asking returns a closure that holds what meets a request against what should.
func asking(t *testing.T, text string) func(want, request string, lines ...string) {
	set := load(t, text)
	m := new(Match)
	return func(want, request string, lines ...string) {
		t.Helper()
		set.Match(newAttrs(t, set, request, lines...), m)
		if got := m.show(); got != want {
			t.Errorf("%s %q\n got %s\nwant %s", request, lines, got, want)
		}
	}
}

// everybody is what stands in a limit that is about matching.
const everybody = "key = []\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n"

func TestDenyComesBeforeAllowAndAllowBeforeLimits(t *testing.T) {
	ask := asking(t, `
		[limit.b]
		match = { path = "/x/**" }
		`+everybody+`
		[limit.a]
		unless = { path = "/x/free" }
		`+everybody+`
		[allow.z]
		match = { path = "/x/open/**" }
		[allow.y]
		match = { path = "/x/open/both" }
		[deny.z]
		match = { path = "/x/open/shut" }
		[deny.y]
		match = { path = "/**/shut" }`)
	ask("limits a{} b{}", "GET http://h/x")
	ask("limits a{}", "GET http://h/y")
	ask("limits b{}", "GET http://h/x/free")
	ask("allow z", "GET http://h/x/open")
	ask("allow y", "GET http://h/x/open/both")
	ask("deny y", "GET http://h/x/open/shut") // by name, not by what is narrower
	ask("deny y", "GET http://h/shut")
}

func TestAllThatMatchNamesMustHold(t *testing.T) {
	ask := asking(t, `
		[limit.all]
		`+everybody+`
		[limit.all.match]
		path   = ["/a/*", "/b"]
		host   = "*.example.com"
		method = ["GET", "POST"]
		zone   = "api*"
		ip     = ["203.0.113.0/24", "2001:db8::/32"]
		header = { X-Plan = ["gold", "silver-*"], X-On = "*" }
		query  = { "käse" = "a b" }
		cookie = { session = "s*" }`)
	type change struct{ request, ip, zone, plan, on, cookie string }
	try := func(want string, c change) {
		t.Helper()
		ask(want, c.request, "ip: "+c.ip, "zone: "+c.zone, "X-Plan: "+c.plan, "X-On: "+c.on, "Cookie: "+c.cookie)
	}
	good := change{"GET http://API.example.COM.:8080/a/x?k%C3%A4se=a+b", "203.0.113.9", "api1", "gold", "0", "a=b; session=s1"}
	try("limits all{}", good)
	but := func(want string, edit func(*change)) {
		t.Helper()
		c := good
		edit(&c)
		try(want, c)
	}
	but("limits all{}", func(c *change) { c.request = "POST http://a.example.com/b/?x&k%c3%a4se=a%20b" })
	but("limits all{}", func(c *change) { c.ip = "::ffff:203.0.113.9" })
	but("limits all{}", func(c *change) { c.ip = "2001:db8:9::1" })
	but("limits all{}", func(c *change) { c.plan = "silver-" })
	but("none", func(c *change) { c.request = "HEAD http://a.example.com/b?k%C3%A4se=a+b" })
	but("none", func(c *change) { c.request = "get http://a.example.com/b?k%C3%A4se=a+b" })
	but("none", func(c *change) { c.request = "GET http://example.com/b?k%C3%A4se=a+b" })
	but("none", func(c *change) { c.request = "GET http://a.example.com/a?k%C3%A4se=a+b" })
	but("none", func(c *change) { c.request = "GET http://a.example.com/b?k%C3%A4se=x&k%C3%A4se=a+b" })
	but("none", func(c *change) { c.request = "GET http://a.example.com/b?K%C3%84SE=a+b" })
	but("none", func(c *change) { c.ip = "203.0.114.9" })
	but("none", func(c *change) { c.zone = "" })
	but("none", func(c *change) { c.zone = "API1" })
	but("none", func(c *change) { c.plan = "Gold" })
	but("none", func(c *change) { c.plan = "gold, gold" })
	but("none", func(c *change) { c.on = "" }) // "*" is any text, and an empty value is missing
	but("none", func(c *change) { c.cookie = "Session=s1; x=s1" })
	but("none", func(c *change) { c.cookie = "session=; session=s1" })
	but("none", func(c *change) { c.cookie = "session=x; session=s1" })
	but("limits all{}", func(c *change) { c.cookie = " ;session ;;\tsession = s=1 ; session=x" })
}

func TestUnlessTakesOutOnlyWhatMeetsAllOfIt(t *testing.T) {
	ask := asking(t, `
		[limit.a]
		unless = { ip = "10.0.0.0/8", method = ["GET", "HEAD"] }
		`+everybody)
	ask("none", "GET http://h/", "ip: 10.1.2.3")
	ask("limits a{}", "POST http://h/", "ip: 10.1.2.3")
	ask("limits a{}", "GET http://h/", "ip: 11.1.2.3")
	ask("limits a{}", "GET http://h/") // an unknown address is in no range
}

func TestAnAddressIsGroupedByItsFamilysPrefix(t *testing.T) {
	limit := "[limit.a]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n"
	ask := asking(t, limit)
	ask("limits a{ip=203.0.113.9}", "GET http://h/", "ip: 203.0.113.9")
	ask("limits a{ip=203.0.113.9}", "GET http://h/", "ip: ::ffff:203.0.113.9")
	ask("limits a{ip=2001:db8:1:2::/64}", "GET http://h/", "ip: 2001:db8:1:2::1")
	ask("limits a{ip=2001:db8:1:2::/64}", "GET http://h/", "ip: 2001:db8:1:2:ffff::9")
	ask("limits a{ip=2001:db8:1:3::/64}", "GET http://h/", "ip: 2001:db8:1:3::1")                   // C040
	ask("limits a{ip=2001:db8:1234:5678::/64}", "GET http://h/", "ip: 2001:db8:1234:5678::1.2.3.4") // C042
	ask("limits a{ip=64:ff9b::/64}", "GET http://h/", "ip: 64:ff9b::808:808")                       // C042
	ask("limits a{ip=fe80::/64}", "GET http://h/", "ip: fe80::1%eth0")
	ask("limits a{ip=unknown}", "GET http://h/")
	ask = asking(t, "[defaults]\nipv4_prefix = 24\nipv6_prefix = 128\n"+limit)
	ask("limits a{ip=203.0.113.0/24}", "GET http://h/", "ip: 203.0.113.9")
	ask("limits a{ip=2001:db8:1:2::1}", "GET http://h/", "ip: 2001:db8:1:2::1")
}

func TestAMissingPartIsWhatTheLimitSays(t *testing.T) {
	limit := func(name, more string) string {
		return "[limit." + name + "]\nkey = [\"zone\", \"header:X-A\"]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n" + more + "\n"
	}
	ask := asking(t, limit("skip", `missing = "skip"`)+limit("share", `missing = "share"`)+limit("ip", `missing = "ip"`))
	ask("limits ip{zone=z|header:x-a=1} share{zone=z|header:x-a=1} skip{zone=z|header:x-a=1}", "GET http://h/", "zone: z", "X-A: 1")
	ask("limits ip{zone=z|ip=192.0.2.1} share{zone=z|header:x-a=} missing:ip missing:share missing:skip", "GET http://h/", "zone: z", "ip: 192.0.2.1")
	ask("limits ip{ip=192.0.2.1|header:x-a=1} share{zone=|header:x-a=1} missing:ip missing:share missing:skip", "GET http://h/", "x-a: 1", "ip: 192.0.2.1")
	ask("limits ip{ip=unknown|ip=unknown} share{zone=|header:x-a=} missing:ip missing:share missing:skip", "GET http://h/", "x-a: ")

	ask = asking(t, limit("a", `missing = "share"`)+limit("b", `missing = "deny"`)+limit("c", `missing = "share"`))
	ask("deny limit.b missing:a missing:b", "GET http://h/")
	ask("limits a{zone=z|header:x-a=1} b{zone=z|header:x-a=1} c{zone=z|header:x-a=1}", "GET http://h/", "zone: z", "X-A: 1")

	ask = asking(t, limit("a", "missing = \"deny\"\nmode = \"shadow\"")+limit("b", `missing = "skip"`))
	ask("none missing:a missing:b", "GET http://h/") // a shadow refuses nobody
}

func TestAHostThatIsMissingIsSharedByAllThatLackOne(t *testing.T) {
	ask := asking(t, "[limit.a]\nkey = [\"host\"]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n")
	ask("limits a{host=example.com}", "GET http://Example.COM:80/")
	ask("limits a{host=%5B::1%5D}", "GET http://[::1]:80/")
	ask("limits a{host=} missing:a", "GET http:///")
}

func TestThePathPartIsTheFirstPatternThatMatched(t *testing.T) {
	ask := asking(t, `
		[limit.a]
		match     = { path = ["/api/*/items", "/api/**", "/login/"] }
		key       = ["path", "path:raw"]
		algorithm = "fixed_window"
		rate      = "5/m"`)
	ask("limits a{path=/api/%2A/items|path:raw=/api/7/items}", "GET http://h/api//7/./items/?x")
	ask("limits a{path=/api/%2A%2A|path:raw=/api/7%20%FF}", "GET http://h/api/7%20%ff")
	ask("limits a{path=/login|path:raw=/login}", "GET http://h/login/")
}

func TestCostIsAPlainWholeNumberOrTheMost(t *testing.T) {
	ask := asking(t, `
		[limit.a]
		key       = []
		algorithm = "fixed_window"
		rate      = "100/m"
		cost      = "header:X-Cost"
		cost_max  = 50
		[limit.b]
		key       = []
		algorithm = "fixed_window"
		rate      = "100/m"
		cost      = 7`)
	for value, cost := range map[string]string{"1": "", "2": "*2", "49": "*49", "50": "*50", "51": "*50", "0": "*50", "-1": "*50", "+2": "*50",
		"02": "*50", "2.0": "*50", "2e0": "*50", "0x2": "*50", " 2": "*50", "2, 3": "*50", "": "*50", "two": "*50", "٣": "*50",
		"9007199254740993": "*50", "99999999999999999999999999": "*50"} {
		ask("limits a{}"+cost+" b{}*7", "GET http://h/", "X-Cost: "+value)
	}
}

func TestUnlimitedIsNoCheckAndZeroIsOne(t *testing.T) {
	ask := asking(t, `
		[limit.a]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "unlimited"
		[override.a."203.0.113.9"]
		rate = "3/m"
		[limit.b]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "5/m"
		[override.b."203.0.113.0/24"]
		rate = "0/s"
		[override.b."198.51.100.1"]
		rate = "unlimited"
		[limit.c]
		match     = { path = "/c" }
		key       = []
		algorithm = "fixed_window"
		rate      = "0/s"`)
	ask("limits b{ip=192.0.2.1} unlimited:a", "GET http://h/", "ip: 192.0.2.1")
	ask("limits a{ip=203.0.113.9}@3 b{ip=203.0.113.9}@0", "GET http://h/", "ip: 203.0.113.9")
	ask("limits c{} unlimited:a unlimited:b", "GET http://h/c", "ip: 198.51.100.1")
	ask("limits unlimited:a unlimited:b", "GET http://h/", "ip: 198.51.100.1")
}

func TestAMatchRemembersNothingOfTheRequestBefore(t *testing.T) {
	sets := []*Set{
		load(t, keyed("a", "ip", "header:X-A", "cookie:c", "query:q", "zone")+keyed("b", "header:X-A")+"match = { query = { p = \"*\" } }\n"),
		load(t, keyed("a", "cookie:c", "host")+"cost = \"header:X-A\"\ncost_max = 3\n[deny.x]\nmatch = { zone = \"z\" }\n"),
	}
	requests := [][]string{
		{"GET http://h/a?q=1&p=2", "X-A: 1", "Cookie: c=1", "zone: y", "ip: 10.0.0.1"},
		{"POST http://i/"},
		{"GET http://h/?q&q=2&p", "Cookie: c=; c=2", "ip: 2001:db8::1"},
		{"GET http://j/b", "zone: z"},
		{"GET http://h/?%71=%31", "X-A: 2", "Cookie: d=1;c=3"},
	}
	used := new(Match)
	for i := range requests {
		for j := range requests {
			for _, set := range sets {
				for _, r := range [][]string{requests[i], requests[j]} {
					fresh, a := new(Match), newAttrs(t, set, r[0], r[1:]...)
					if len(r) == 1 {
						a.Headers = nil // absent and empty are the same
					}
					set.Match(a, used)
					set.Match(a, fresh)
					if used.show() != fresh.show() {
						t.Errorf("%q: %s, want %s", r, used.show(), fresh.show())
					}
				}
			}
		}
	}
}
