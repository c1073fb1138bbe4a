package main

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

func TestAttributesAreReadAsTheProxySaysThem(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		match     = { header = { "X-Plan" = "*", "User-Agent" = "*" }, path = "/**" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "5/m"`)
	proxy := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 4000}
	check := func(peer net.Addr, want string, lines ...string) {
		t.Helper()
		ctx := asked(t, peer, append([]string{"GET /nginx HTTP/1.1", "Host: authz"}, lines...)...)
		q := &request{rules: s.rules.Load()}
		addr, trusted := s.peers.of(ctx.RemoteAddr())
		q.read(&ctx.Request.Header, 0, trusted)
		f, known := q.resolve(addr, s.peers.trusted)
		a := &q.attrs
		got := fmt.Sprintf("%s %s %s ?%s zone=%s ip=%v cookie=%s headers=%q", a.Method, a.Host, a.Path, a.Query, a.Zone, a.IP, a.Cookie, a.Headers)
		if f != flawless {
			got = f.String()
		}
		if q.ignored > 0 {
			got += fmt.Sprintf(" ignored=%d", q.ignored)
		}
		if !known {
			got += " address unreadable"
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	const get, uri = "X-Original-Method: GET", "X-Original-URI: /a/../login/?x=1#y"
	const from5 = `ip=10.0.0.5 cookie= headers=["" ""]`

	// the target is nginx's, the host the first that is named
	check(proxy, `GET authz /login ?x=1 zone= `+from5, get, uri)
	check(proxy, `GET h /login ?x=1 zone=z `+from5, get, uri, "X-Original-Host: h", "X-Forwarded-Host: f", "X-Authz-Zone: z")
	check(proxy, `GET f /login ?x=1 zone= `+from5, get, uri, "X-Forwarded-Host: f")
	check(proxy, `GET u /p ?q=1 zone= `+from5, get, "X-Original-URL: https://u/p?q=1", "X-Forwarded-Host: f")
	check(proxy, `GET h /login ?x=1 zone= `+from5, get, uri, "X-Original-URL: https://u/p?q=1", "X-Original-Host: h")
	check(proxy, `GET u / ? zone= `+from5, get, "X-Original-URL: https://u")
	check(proxy, `GET u / ?a=1 zone= `+from5, get, "X-Original-URL: https://u?a=1")
	check(proxy, `GET authz /p ? zone= `+from5, get, "X-Original-URL: /p")
	check(proxy, `GET authz / ?a zone= `+from5, get, "X-Original-URI: ?a")

	// the client, walked from the right past trusted proxies
	check(proxy, `GET authz /login ?x=1 zone= ip=203.0.113.9 cookie= headers=["" ""]`, get, uri, "X-Forwarded-For: 6.6.6.1, 203.0.113.9, 10.1.2.3")
	check(proxy, `GET authz /login ?x=1 zone= ip=203.0.113.9 cookie= headers=["" ""]`, get, uri, "X-Forwarded-For: 6.6.6.1", "X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.1.2.3")
	check(proxy, `GET authz /login ?x=1 zone= ip=10.9.9.9 cookie= headers=["" ""]`, get, uri, "X-Forwarded-For: 10.9.9.9, 10.1.2.3")
	check(proxy, `GET authz /login ?x=1 zone= ip=2001:db8::1 cookie= headers=["" ""]`, get, uri, "X-Real-IP: [2001:db8::1]:443", "X-Forwarded-For: 203.0.113.9")
	check(proxy, `GET authz /login ?x=1 zone= `+from5+` address unreadable`, get, uri, "X-Forwarded-For: 203.0.113.9, unknown")
	check(proxy, `GET authz /login ?x=1 zone= `+from5+` address unreadable`, get, uri, "X-Real-IP: 999.1.1.1", "X-Forwarded-For: 203.0.113.9")
	check(proxy, `GET authz /login ?x=1 zone= `+from5, get, uri, "X-Real-IP: ")
	check(&net.UnixAddr{}, `GET authz /login ?x=1 zone= ip=203.0.113.9 cookie= headers=["" ""]`, get, uri, "X-Real-IP: 203.0.113.9")
	check(&net.UnixAddr{}, `GET authz /login ?x=1 zone= ip=invalid IP cookie= headers=["" ""]`, get, uri)
	check(&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.5")}, `GET authz /login ?x=1 zone= `+from5, get, uri)

	// lines of one name are joined; an underscore is not a hyphen
	check(proxy, `GET authz /login ?x=1 zone= ip=10.0.0.5 cookie=a=1; b=2; a=3 headers=["u1, u2" "p1, , p2"]`,
		get, uri, "user-agent: u1", "cookie: a=1; b=2", "x-plan: p1", "X-PLAN:", "User-Agent: u2", "x-plan:\t p2 ", "X_Plan: p3", "Cookie: a=3")

	// what the proxy has to say, and does not
	check(proxy, "no_method", uri)
	check(proxy, "no_method", uri, "X-Original-Method:")
	check(proxy, "no_uri", get)
	check(proxy, "no_uri", get, "X-Original-URI: ", "X-Original-URL: ")
	check(proxy, "bad_target", get, "X-Original-URI: /%zz")
	check(proxy, "bad_target", get, "X-Original-URI: /../x")
	check(proxy, "bad_target", get, "X-Original-URI: login")
	check(proxy, "bad_target", get, "X-Original-URL: login")
	// a client's Host can hide the path in a URL: nginx lets it have "?" and "#"
	check(proxy, "bad_target", get, "X-Original-URL: https://h?/login")
	check(proxy, "bad_target", get, "X-Original-URL: https://h#/login")
	// a client's own line beside the proxy's
	check(proxy, "said_twice", get, uri, "X-Original-URI: /free")
	check(proxy, "said_twice", get, get, uri)

	// nobody else is believed
	stranger := &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}
	check(stranger, "no_method ignored=7", get, uri, "X-Original-Host: h", "X-Forwarded-Host: f", "X-Forwarded-For: 192.0.2.10",
		"x-real-ip: 192.0.2.10", "X-AUTHZ-ZONE: z")
}

func TestARouteIsMatchedRaw(t *testing.T) {
	check := func(target, want string) {
		t.Helper()
		got := "none"
		if i := routeOf([]byte(target)); i >= 0 {
			got = routes[i].path
		}
		if got != want {
			t.Errorf("%s: route %s, want %s", target, got, want)
		}
	}
	check("/nginx", "/nginx")
	check("/nginx?x=1", "/nginx")
	check("/nginx/any/thing", "/nginx")
	for _, target := range []string{"/", "/nginxx", "/nginx%3f", "/NGINX", "//nginx", "/./nginx", "/nginx#x", "/n%67inx", "/nginx;x", "http://h/nginx", "*"} {
		check(target, "none")
	}
}

func TestOnlyTheHeadersOfLimitsAreLookedAt(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		key       = ["header:X-API-Key"]
		missing   = "skip"
		algorithm = "fixed_window"
		rate      = "5/m"`)
	want := "Cookie Host X-Api-Key X-Authz-Zone X-Forwarded-For X-Forwarded-Host X-Original-Host X-Original-Method X-Original-Uri X-Original-Url X-Real-Ip X-Request-Id"
	var names []string
	for _, alike := range s.rules.Load().readings[0] {
		for _, h := range alike {
			names = append(names, h.name)
		}
	}
	slices.Sort(names)
	if got := strings.Join(names, " "); got != want {
		t.Errorf("headers\n%s\nwant\n%s", got, want)
	}
}

func TestTheLogSaysWhichHeaderIsToBlame(t *testing.T) {
	check := func(kind, header string, sent ...string) {
		t.Helper()
		s := serviceFor(t, tokens)
		log, out := lines()
		s.log = log
		s.handle(asked(t, loopback, append([]string{"GET /nginx HTTP/1.1", "Host: authz"}, sent...)...))
		if want := fmt.Sprintf("level=WARN msg=\"request blocked: nginx does not say what it is, see nginx/README.md\" kind=%s header=%s\n", kind, header); out.String() != want {
			t.Errorf("%q: logged\n%swant\n%s", sent, out, want)
		}
	}
	check("no_method", "X-Original-Method", "X-Original-URI: /")
	check("no_uri", "X-Original-URI", "X-Original-Method: GET")
	check("said_twice", "X-Original-Uri", "X-Original-Method: GET", "X-Original-URI: /", "X-Original-URI: /free")
}

func TestHeaderNamesAreSpelledAsFasthttpDoes(t *testing.T) {
	check := func(name, want string) {
		t.Helper()
		if got := canonical(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	check("x-api-key", "X-Api-Key")
	check("x-1a-b", "X-1a-B")
	check("x_api_key", "X_api_key")
	check("te", "Te")
	check("x--y", "X--Y")
}

// Many lines of two names, by turns, take no more memory than a few times what they are.
func TestManyLinesOfAHeaderTakeNoMoreThanTheyAre(t *testing.T) {
	s := serviceFor(t, tokens)
	lines := []string{"GET /nginx HTTP/1.1", "Host: a"}
	for range 150 {
		lines = append(lines, "X-API-Key: k", "Cookie: c")
	}
	ctx := asked(t, loopback, lines...)
	q := &request{rules: s.rules.Load()}
	q.read(&ctx.Request.Header, 0, true)
	if got, want := string(q.values[fields]), strings.TrimSuffix(strings.Repeat("k, ", 150), ", "); got != want {
		t.Errorf("got %.60q..., want %.60q...", got, want)
	}
	if got, want := string(q.values[fieldCookie]), strings.TrimSuffix(strings.Repeat("c; ", 150), "; "); got != want {
		t.Errorf("got %.60q..., want %.60q...", got, want)
	}
	if n := cap(q.joined); n > 10*2*3*150 {
		t.Errorf("%d bytes for %d, want a few times as many", n, 2*3*150)
	}
}
