package service

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"authz/internal/header"
	"authz/internal/route"
	"authz/internal/testkit"
	"authz/internal/toptalkers"
	"authz/limits"
)

func TestAttributesAreReadAsTheProxySaysThem(t *testing.T) {
	s := serviceFor(t, `
		[limit.a]
		match     = { header = { "X-Plan" = "*", "User-Agent" = "*" }, path = "/**" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "5/m"`)
	proxy := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 4000}
	check := func(peer net.Addr, want, target string, lines ...string) {
		t.Helper()
		ctx := asked(t, peer, append([]string{"GET " + target + " HTTP/1.1", "Host: authz"}, lines...)...)
		q := &request{rules: s.Rules.Load()}
		_, trusted := s.peers.of(ctx.RemoteAddr())
		q.read(&ctx.Request.Header, route.IndexOf([]byte(target)), trusted)
		f, unreadable := q.resolve(s.peers.trusted)
		a := &q.attrs
		got := fmt.Sprintf("%s %s %s ?%s zone=%s ip=%v cookie=%s headers=%q",
			a.Method, a.Host, a.Path, a.Query, a.Zone, a.IP, a.Cookie, a.Headers)
		if f != flawless {
			got = f.String()
		}
		if q.ignored > 0 {
			got += fmt.Sprintf(" ignored=%d", q.ignored)
		}
		if unreadable != nil {
			got += fmt.Sprintf(" unreadable=%s", unreadable)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	const get, uri = "X-Original-Method: GET", "X-Original-URI: /a/../login/?x=1#y"
	const url = "X-Original-URL: https://u:443/a/../login/?x=1#y"
	const unknown, from9 = `ip=invalid IP cookie= headers=["" ""]`, `ip=203.0.113.9 cookie= headers=["" ""]`
	const client = "X-Real-IP: 203.0.113.9"

	// the target is nginx's, the host and the zone come from the row's own header alone
	check(proxy, `GET  /login ?x=1 zone= `+unknown, "/nginx", get, uri)
	check(proxy, `GET h /login ?x=1 zone=z `+from9, "/nginx?zone=other", get, uri, client,
		"X-Original-Host: h", "X-Forwarded-Host: f", "X-Authz-Zone: z")
	check(proxy, `GET  / ?a zone= `+unknown, "/nginx", get, "X-Original-URI: ?a")
	check(proxy, `GET u:443 /login ?x=1 zone= `+from9, "/ingress", get, url, client)
	check(proxy, `GET u /p ?q=1 zone=api `+from9, "/ingress?zone=api", get, "X-Original-URL: https://u/p?q=1", client)
	check(proxy, `GET u /p ? zone=a b `+from9, "/ingress/?x=1&zone=a+b&zone=c#&zone=d",
		get, "X-Original-URL: https://u/p", client)
	check(proxy, `GET u / ? zone= `+unknown, "/ingress", get, "X-Original-URL: https://u")
	check(proxy, `GET u / ?a=1 zone= `+unknown, "/ingress", get, "X-Original-URL: https://u?a=1")
	// a client of HTTP/1.0 without a host
	check(proxy, `GET  /p ? zone= `+unknown, "/ingress", get, "X-Original-URL: http:///p")

	// what the proxy lets through is the client's, and is not read
	forged := []string{"X-Original-URI: /healthz", "X-Original-Host: free", "X-Authz-Zone: free", "X-Request-ID: mine",
		"X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: free", "X-Forwarded-Proto: https", "Forwarded: for=127.0.0.1"}
	check(proxy, `GET u:443 /login ?x=1 zone=api `+from9, "/ingress?zone=api", append(forged, get, url, client)...)
	check(proxy, `GET u:443 /login ?x=1 zone= `+unknown, "/ingress", append(forged, get, url)...)

	// the address is one that the proxy names, or unknown: never the proxy's own
	check(proxy, `GET  /login ?x=1 zone= ip=2001:db8::1 cookie= headers=["" ""]`, "/nginx",
		get, uri, "X-Real-IP: [2001:db8::1]:443", "X-Forwarded-For: 203.0.113.9")
	for _, peer := range []net.Addr{proxy, loopback, &net.UnixAddr{}, &net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.5")}} {
		check(peer, `GET  /login ?x=1 zone= `+from9, "/nginx", get, uri, client)
		check(peer, `GET  /login ?x=1 zone= `+unknown, "/nginx", get, uri, "X-Real-IP: ")
		check(peer, `GET  /login ?x=1 zone= `+unknown, "/nginx", get, uri, "X-Forwarded-For: 203.0.113.9")
		for _, text := range []string{"unix:", "unknown", "_hidden", "999.1.1.1", "203.0.113.9, 203.0.113.8"} {
			named := "X-Real-IP: " + text
			check(peer, `GET  /login ?x=1 zone= `+unknown+` unreadable=`+text, "/nginx",
				get, uri, named, "X-Forwarded-For: 203.0.113.9")
			check(peer, `GET u:443 /login ?x=1 zone= `+unknown+` unreadable=`+text, "/ingress", get, url, named)
		}
		check(peer, `GET  /login ?x=1 zone= `+unknown+` unreadable=203.0.113.9, 203.0.113.8`, "/nginx",
			get, uri, client, "X-Real-IP: 203.0.113.8")
	}

	// lines of one name are joined; an underscore is not a hyphen
	check(proxy, `GET  /login ?x=1 zone= ip=203.0.113.9 cookie=a=1; b=2; a=3 headers=["u1, u2" "p1, , p2"]`, "/nginx",
		get, uri, client, "user-agent: u1", "cookie: a=1; b=2", "x-plan: p1", "X-PLAN:", "User-Agent: u2",
		"x-plan:\t p2 ", "X_Plan: p3", "Cookie: a=3")

	// what the proxy has to say, and does not
	check(proxy, "no_method", "/nginx", uri)
	check(proxy, "no_method", "/ingress", url)
	check(proxy, "no_method", "/nginx", uri, "X-Original-Method:")
	check(proxy, "no_uri", "/nginx", get)
	check(proxy, "no_uri", "/nginx", get, "X-Original-URI: ")
	check(proxy, "no_uri", "/ingress", get, uri)
	check(proxy, "no_uri", "/ingress", get, "X-Original-URL: ")
	check(proxy, "bad_target", "/nginx", get, "X-Original-URI: /%zz")
	check(proxy, "bad_target", "/nginx", get, "X-Original-URI: /../x")
	check(proxy, "bad_target", "/nginx", get, "X-Original-URI: login")
	check(proxy, "bad_target", "/ingress", get, "X-Original-URL: login")
	check(proxy, "bad_host", "/nginx", get, uri, "X-Original-Host: a..b")
	check(proxy, "bad_host", "/ingress", get, "X-Original-URL: https://:80/login")
	// a client's Host can hide the path in a URL: nginx lets it have "?" and "#"
	check(proxy, "bad_target", "/ingress", get, "X-Original-URL: https://h?/login")
	check(proxy, "bad_target", "/ingress", get, "X-Original-URL: https://h#/login")
	// a client's own line beside the proxy's
	check(proxy, "said_twice", "/nginx", get, uri, "X-Original-URI: /free")
	check(proxy, "said_twice", "/nginx", get, get, uri)
	check(proxy, "said_twice", "/ingress", get, url, "X-Original-URL: https://u/healthz")
	// another proxy, which lets a client send this one's headers
	check(proxy, "wrong_route", "/nginx", get, url)
	check(proxy, "wrong_route", "/nginx", get, uri, "X-Original-URL:")
	check(proxy, "wrong_route", "/nginx", get, uri, "X-Forwarded-Method: POST")
	check(proxy, "wrong_route", "/ingress", get, url, "X-Forwarded-Method: POST")

	// nobody else is believed
	stranger := &net.TCPAddr{IP: net.IPv4(198, 51, 100, 7), Port: 4000}
	check(stranger, "no_method ignored=7", "/nginx", get, uri, "X-Original-Host: h", "X-Forwarded-Host: f",
		"X-Forwarded-For: 192.0.2.10", "x-real-ip: 192.0.2.10", "X-AUTHZ-ZONE: z")
	check(stranger, "no_method ignored=3", "/ingress?zone=z", get, url, client)
}

func TestARouteIsMatchedRaw(t *testing.T) {
	check := func(target, want string) {
		t.Helper()
		got := "none"
		if i := route.IndexOf([]byte(target)); i >= 0 {
			got = route.All[i].Path
		}
		if got != want {
			t.Errorf("%s: route %s, want %s", target, got, want)
		}
	}
	check("/nginx", "/nginx")
	check("/nginx?x=1", "/nginx")
	check("/nginx/any/thing", "/nginx")
	check("/ingress?zone=api", "/ingress")
	for _, target := range []string{"/", "/nginxx", "/ingres", "/ingress-nginx", "/nginx%3f", "/NGINX", "//nginx",
		"/./nginx", "/nginx#x",
		"/n%67inx", "/nginx;x", "http://h/nginx", "*"} {
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
	check := func(at int, want string) {
		t.Helper()
		var names []string
		for _, alike := range s.Rules.Load().readings[at] {
			for _, h := range alike {
				names = append(names, h.name)
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: headers\n%s\nwant\n%s", route.All[at].Path, got, want)
		}
	}
	check(0, "Cookie X-Api-Key X-Authz-Zone X-Forwarded-Method X-Original-Host X-Original-Method X-Original-URI "+
		"X-Original-URL X-Real-IP X-Request-ID")
	check(1, "Cookie X-Api-Key X-Forwarded-Method X-Original-Method X-Original-URL X-Real-IP")
}

// A limit that names a header of /nginx reads it there, and reads nothing at /ingress, where a client writes it.
func TestAHeaderOfAnotherRouteIsAbsentForLimits(t *testing.T) {
	s := serviceFor(t, `
		[allow.internal]
		match     = { header = { "X-Authz-Zone" = "internal" } }
		[limit.uri]
		match     = { path = "/a" }
		key       = ["header:X-Original-URI", "header:X-Original-URL", "header:X-Real-IP"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "5/m"`)
	check := func(want, target string, lines ...string) {
		t.Helper()
		ctx := asked(t, loopback, append([]string{"GET " + target + " HTTP/1.1", "Host: authz",
			"X-Original-Method: GET", "X-Real-IP: 203.0.113.9"}, lines...)...)
		q := new(request)
		s.answer(ctx, route.IndexOf([]byte(target)), q)
		got := q.match.Verdict.String()
		for i := range q.match.Checks {
			got += " " + string(q.match.Checks[i].Identity())
		}
		if got != want {
			t.Errorf("%s %q: %s, want %s", target, lines, got, want)
		}
	}
	const url = "limits header:x-original-uri=|header:x-original-url=http://u/a|header:x-real-ip=203.0.113.9"
	check("limits header:x-original-uri=/a|header:x-original-url=|header:x-real-ip=203.0.113.9",
		"/nginx", "X-Original-URI: /a")
	check("allow", "/nginx", "X-Original-URI: /a", "X-Authz-Zone: internal")
	check(url, "/ingress", "X-Original-URL: http://u/a")
	check(url, "/ingress", "X-Original-URL: http://u/a", "X-Original-URI: /1", "X-Authz-Zone: internal")
	check(url, "/ingress?zone=internal", "X-Original-URL: http://u/a", "X-Original-URI: /2", "X-Original-URI: /3")
}

// A route is a row of data: another proxy needs no code.
func TestARouteForAnotherProxyIsData(t *testing.T) {
	trusted, err := limits.ParsePrefixes([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	s := serviceFor(t, tokens)
	forward := &route.Route{Path: "/forward", ZoneInURL: true, Reads: []route.Read{
		{Header: "X-Forwarded-Method", Field: route.Method}, {Header: "X-Forwarded-Uri", Field: route.Target},
		{Header: "X-Forwarded-Host", Field: route.Host}, {Header: "X-Forwarded-For", Field: route.ForwardedFor}}}
	check := func(want string, lines ...string) {
		t.Helper()
		ctx := asked(t, loopback, append([]string{"GET /forward?zone=api HTTP/1.1", "Host: h"}, lines...)...)
		q := &request{rules: s.Rules.Load(), route: forward, trusted: true, zone: []byte("api")}
		q.begin(q.rules.Set)
		headers := readingOf(forward, q.rules.Set)
		for name, value := range ctx.Request.Header.AllInOrder() {
			q.take(headers, name, value)
		}
		f, unreadable := q.resolve(trusted)
		a := &q.attrs
		if got := fmt.Sprintf("%s%s %s %s %s %v %s", f, a.Method, a.Host, a.Path, a.Zone, a.IP, unreadable); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	asks := func(more ...string) []string {
		return append([]string{"X-Forwarded-Method: POST", "X-Forwarded-Uri: /a?b", "X-Forwarded-Host: shop.example"},
			more...)
	}
	check("POST shop.example /a api 203.0.113.9 ", asks("X-Forwarded-For: 6.6.6.1, 203.0.113.9, 10.1.2.3")...)
	check("POST shop.example /a api 203.0.113.9 ", asks("X-Forwarded-For: 6.6.6.1",
		"X-Forwarded-For: 203.0.113.9", "X-Forwarded-For: 10.1.2.3")...)
	check("POST shop.example /a api 10.9.9.9 ", asks("X-Forwarded-For: 10.9.9.9, 10.1.2.3")...)
	check("POST shop.example /a api invalid IP 203.0.113.9, unknown", asks("X-Forwarded-For: 203.0.113.9, unknown")...)
	check("POST shop.example /a api invalid IP ",
		asks("X-Real-IP: 203.0.113.9", "X-Original-URI: /healthz", "X-Authz-Zone: z")...)
}

func TestTheLogSaysWhichHeaderIsToBlame(t *testing.T) {
	check := func(kind, header string, sent ...string) {
		t.Helper()
		s := serviceFor(t, tokens)
		log, out := testkit.Log()
		s.Log = log
		s.handle(asked(t, loopback, append([]string{"GET /nginx HTTP/1.1", "Host: authz"}, sent...)...))
		if want := fmt.Sprintf("level=WARN msg=\"request blocked: nginx does not say what it is, see nginx/README.md\" kind=%s header=%s\n", kind, header); out.String() != want {
			t.Errorf("%q: logged\n%swant\n%s", sent, out, want)
		}
	}
	check("no_method", "X-Original-Method", "X-Original-URI: /")
	check("no_uri", "X-Original-URI", "X-Original-Method: GET")
	check("said_twice", "X-Original-URI", "X-Original-Method: GET", "X-Original-URI: /", "X-Original-URI: /free")
}

// A check that was set up for another proxy says in the log what to do.
func TestTheLogSendsAProxyToItsRoute(t *testing.T) {
	check := func(want, target string, sent ...string) {
		t.Helper()
		s := serviceFor(t, strings.Replace(tokens, "X-API-Key", "X-Original-URL", 1)) // a limit that reads it changes nothing
		log, out := testkit.Log()
		s.Log = log
		for range 2 { // one line a minute
			ctx := asked(t, loopback, append([]string{"GET " + target + " HTTP/1.1", "Host: authz",
				"X-Original-Method: GET"}, sent...)...)
			s.handle(ctx)
			if got := string(ctx.Response.Header.Peek("X-Authz-Status")); got != "403" {
				t.Errorf("%q: X-Authz-Status %s, want 403", sent, got)
			}
		}
		if out.String() != want+"\n" {
			t.Errorf("%q: logged\n%swant\n%s", sent, out, want)
		}
		const counter = `authz_flawed_requests_total{kind="wrong_route"}`
		if got, want := shown(t, s, counter), counter+" 2\n"; got != want {
			t.Errorf("%q: %s, want %s", sent, got, want)
		}
	}
	const blocked = `level=WARN msg="request blocked: its header is another proxy's" `
	check(blocked+"route=/nginx header=X-Original-URL "+
		`cure="want /ingress, the route for ingress-nginx"`,
		"/nginx", "X-Original-URL: http://h/api/x")
	const none = "header=X-Forwarded-Method " +
		`cure="want no such header: no route is for Traefik, Caddy or APISIX"`
	check(blocked+"route=/nginx "+none, "/nginx", "X-Original-URI: /healthz", "X-Forwarded-Method: GET")
	check(blocked+"route=/ingress "+none, "/ingress", "X-Original-URL: http://h/healthz", "X-Forwarded-Method: GET")
}

// An address that cannot be read makes nobody unlimited: all such clients share one bucket, and the log says why.
func TestAnUnreadableAddressIsUnknownCountedAndLogged(t *testing.T) {
	const self = `
		[allow.self]
		match = { ip = ["127.0.0.0/8", "::1", "10.0.0.0/8"] }
		[limit.a]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/d"`
	check := func(address, value, cure string) {
		t.Helper()
		for _, peer := range []net.Addr{loopback, &net.UnixAddr{}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5)}} {
			s := serviceFor(t, self)
			log, out := testkit.Log()
			s.Log = log
			s.Refused = toptalkers.New(nil)
			for _, want := range []string{"200", "429"} {
				ctx := asked(t, peer, "GET /nginx HTTP/1.1", "Host: authz", "X-Original-Method: GET", "X-Original-URI: /",
					"X-Real-IP: "+address)
				s.handle(ctx)
				if got := string(ctx.Response.Header.Peek("X-Authz-Status")); got != want {
					t.Errorf("%q from %v: %s, want %s", address, peer, got, want)
				}
			}
			want := `level=WARN msg="the address of a client cannot be read; it counts as ip=unknown" ` +
				"address=" + value + " cure=\"" + cure + "\"\n"
			if out.String() != want {
				t.Errorf("%q: logged\n%swant\n%s", address, out, want)
			}
			if got, want := shown(t, s, "authz_unreadable_ip_total"), "authz_unreadable_ip_total 2\n"; got != want {
				t.Errorf("%q: %s, want %s", address, got, want)
			}
		}
	}
	const other = "want one address, such as 203.0.113.9, in the proxy's header: X-Real-IP $remote_addr in nginx"
	check("unix:", "unix:",
		"nginx listens on a unix socket: set_real_ip_from unix: and real_ip_header name the client there")
	check("unknown", "unknown", other)
	check("_hidden", "_hidden", other)
	check("127.0.0.1, 127.0.0.1", `"127.0.0.1, 127.0.0.1"`, other)
	check("a\"b\xff", `"a\"b\xff"`, other)
	check(strings.Repeat("1", 2000), strings.Repeat("1", 64)+"...", other)
}

func TestHeaderNamesAreSpelledAsFasthttpDoes(t *testing.T) {
	check := func(name, want string) {
		t.Helper()
		if got := header.Canonical(name); got != want {
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
	q := &request{rules: s.Rules.Load()}
	q.read(&ctx.Request.Header, 0, true)
	if got, want := string(q.values[route.Fields]), strings.TrimSuffix(strings.Repeat("k, ", 150), ", "); got != want {
		t.Errorf("got %.60q..., want %.60q...", got, want)
	}
	if got, want := string(q.values[route.Cookie]), strings.TrimSuffix(strings.Repeat("c; ", 150), "; "); got != want {
		t.Errorf("got %.60q..., want %.60q...", got, want)
	}
	if n := cap(q.joined); n > 10*2*3*150 {
		t.Errorf("%d bytes for %d, want a few times as many", n, 2*3*150)
	}
}

func TestAnIDThatIsNoneIsNotLogged(t *testing.T) {
	check := func(want, id string, trusted bool) {
		t.Helper()
		q := &request{values: make([][]byte, route.Fields), trusted: trusted}
		q.values[route.RequestID] = []byte(id)
		if got := string(q.requestID()); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
	check("8a4f1c0be1f14a5f9d6a8a0c3f3a1b2c", "8a4f1c0be1f14a5f9d6a8a0c3f3a1b2c", true)
	check("", "8a4f1c0be1f14a5f9d6a8a0c3f3a1b2c", false)
	check("A-b_c.d:e+f/g=", "A-b_c.d:e+f/g=", true)
	check("", "a b", true)
	check("", "a\"b", true)
	check("", "a\x1b[31m", true)
	check("", strings.Repeat("a", 65), true)
	check("", "", true)
}
