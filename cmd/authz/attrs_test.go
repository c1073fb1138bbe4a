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
		_, trusted := s.peers.of(ctx.RemoteAddr())
		q.read(&ctx.Request.Header, 0, trusted)
		f, a := q.resolve(), &q.attrs
		got := fmt.Sprintf("%s %s %s ?%s zone=%s ip=%v cookie=%s headers=%q", a.Method, a.Host, a.Path, a.Query, a.Zone, a.IP, a.Cookie, a.Headers)
		if f != flawless {
			got = f.String()
		}
		if q.ignored > 0 {
			got += fmt.Sprintf(" ignored=%d", q.ignored)
		}
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	const get, uri = "X-Original-Method: GET", "X-Original-URI: /a/../login/?x=1#y"
	const nobody = `ip=invalid IP cookie= headers=["" ""]`

	// the target is nginx's
	check(proxy, `GET  /login ?x=1 zone= `+nobody, get, uri)
	check(proxy, `GET h /login ?x=1 zone=z `+nobody, get, uri, "X-Original-Host: h", "X-Authz-Zone: z")
	check(proxy, `GET  / ?a zone= `+nobody, get, "X-Original-URI: ?a")

	// the client's address; never the peer's
	check(proxy, `GET  /login ?x=1 zone= ip=2001:db8::1 cookie= headers=["" ""]`, get, uri, "X-Real-IP: [2001:db8::1]:443", "X-Forwarded-For: 203.0.113.9")
	check(proxy, `GET  /login ?x=1 zone= `+nobody, get, uri, "X-Forwarded-For: 203.0.113.9")
	check(proxy, `GET  /login ?x=1 zone= `+nobody, get, uri, "X-Real-IP: 999.1.1.1")
	check(proxy, `GET  /login ?x=1 zone= `+nobody, get, uri, "X-Real-IP: ")
	check(&net.UnixAddr{}, `GET  /login ?x=1 zone= ip=203.0.113.9 cookie= headers=["" ""]`, get, uri, "X-Real-IP: 203.0.113.9")
	check(&net.UnixAddr{}, `GET  /login ?x=1 zone= `+nobody, get, uri)

	// lines of one name are joined; an underscore is not a hyphen
	check(proxy, `GET  /login ?x=1 zone= ip=invalid IP cookie=a=1; b=2; a=3 headers=["u1, u2" "p1, , p2"]`,
		get, uri, "user-agent: u1", "cookie: a=1; b=2", "x-plan: p1", "X-PLAN:", "User-Agent: u2", "x-plan:\t p2 ", "X_Plan: p3", "Cookie: a=3")

	// what the proxy has to say, and does not
	check(proxy, "no_method", uri)
	check(proxy, "no_method", uri, "X-Original-Method:")
	check(proxy, "no_uri", get)
	check(proxy, "no_uri", get, "X-Original-URI: ")
	check(proxy, "bad_target", get, "X-Original-URI: /%zz")
	check(proxy, "bad_target", get, "X-Original-URI: /../x")
	check(proxy, "bad_target", get, "X-Original-URI: login")
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
	check("/ingress?zone=z", "/ingress")
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
	want := "Cookie X-Api-Key X-Authz-Zone X-Forwarded-Method X-Original-Host X-Original-Method X-Original-Uri X-Original-Url X-Real-Ip X-Request-Id"
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
	check := func(route, want string, sent ...string) {
		t.Helper()
		s := serviceFor(t, tokens)
		log, out := lines()
		s.log = log
		for range 3 {
			s.handle(asked(t, loopback, append([]string{"GET " + route + " HTTP/1.1", "Host: authz"}, sent...)...))
		}
		if want := "level=WARN msg=" + want + "\n"; out.String() != want {
			t.Errorf("%q: logged\n%swant\n%s", sent, out, want)
		}
	}
	const method, uri, url = "X-Original-Method: GET", "X-Original-URI: /", "X-Original-URL: http://h/"
	const blocked = `"request blocked: nginx does not say what it is, see nginx/README.md" kind=`
	check("/nginx", blocked+"no_method header=X-Original-Method", uri)
	check("/nginx", blocked+"no_uri header=X-Original-URI", method)
	check("/nginx", blocked+"said_twice header=X-Original-Uri", method, uri, "X-Original-URI: /free")
	check("/ingress", blocked+"no_uri header=X-Original-URL", method, uri)
	check("/ingress", blocked+"said_twice header=X-Original-Url", method, url, url)
	check("/nginx", `"request blocked: this header is not read at /nginx: ingress-nginx sends it, want /ingress in the URL of the check" kind=wrong_route header=X-Original-Url`,
		method, uri, url)
	check("/ingress", `"request blocked: this header is not read at /ingress: Traefik, Caddy and APISIX send it, and there is no route for them yet" kind=wrong_route header=X-Forwarded-Method`,
		method, url, "X-Forwarded-Method: GET")
	const unreadable = `"the client address cannot be read, the request counts as ip=unknown: want X-Real-IP $remote_addr in the proxy, ` +
		`and where it listens on a unix socket set_real_ip_from unix: and real_ip_header" x_real_ip=`
	check("/nginx", unreadable+"unix:", method, uri, "X-Real-IP: unix:")
	check("/ingress", unreadable+`"127.0.0.1, a"`, method, url, "X-Real-IP: 127.0.0.1", "X-Real-IP: a")
	check("/nginx", unreadable+strings.Repeat("x", 64), method, uri, "X-Real-IP: "+strings.Repeat("x", 65))
	check("/nginx", `"request without a client address, it counts as ip=unknown: set X-Real-IP in the proxy"`, method, uri)
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
