package accesslog

import (
	"fmt"
	"testing"

	"authz/internal/testkit"
	"authz/limits"
)

const reading = `
	[limit.a]
	match     = { zone = "*", query = { q = "*" } }
	key       = ["ip", "host", "header:X-API-Key", "header:Cookie", "cookie:S", "header:User-Agent"]
	missing   = "skip"
	algorithm = "fixed_window"
	rate      = "1/s"`

// asked is the attributes that a line makes, or its flaw.
func asked(r *AttrsReader, b *Bound, line string) string {
	timeUS, f := r.Read([]byte(line), b)
	if f != Flawless {
		return f.String()
	}
	a := r.AttrsOf(0)
	return fmt.Sprintf("%d %s %s %s?%s %v zone=%s cookie=%s headers=%q", timeUS, a.Method, a.Host, a.Path, a.Query, a.IP, a.Zone, a.Cookie, a.Headers)
}

func TestALineIsWhatTheServiceWouldHaveBeenAsked(t *testing.T) {
	set := testkit.Limits(t, reading)
	sets := []*limits.Set{set}
	names := NewFieldNames(sets)
	check := func(format, line, want string) {
		t.Helper()
		f, err := ParseFormat(format)
		if err != nil {
			t.Fatal(err)
		}
		if got := asked(NewAttrsReader(names, sets), f.Bind(names), line); got != want {
			t.Errorf("%s\n%s: got\n%s\nwant\n%s", format, line, got, want)
		}
	}
	// headers by name: user-agent and x-api-key (the Cookie header is of its own)
	check("combined", `203.0.113.9 - a b [10/Oct/2026:13:55:36 +0000] "GET /a//b/?q=1#x HTTP/1.1" 200 612 "-" "curl \x22 \xE2\x82\xAC \\o/"`,
		`1791640536000000 GET  /a/b?q=1 203.0.113.9 zone= cookie= headers=["curl \" € \\o/" ""]`)
	check("$host:$server_port $http_host $server_name $msec $request_uri $request_method", "a.example.com:80 - b.example.com 1791640536.5 /x%2Fy?q= GET",
		`1791640536500000 GET a.example.com /x/y?q= invalid IP zone= cookie= headers=["" ""]`)
	check("$http_host $server_name $msec $request_uri", "- b.example.com 1791640536.5 /",
		`1791640536500000  b.example.com /? invalid IP zone= cookie= headers=["" ""]`)
	check("$msec \"$request\"", `1791640536 "GET http://c.example.com:8080?q=2 HTTP/1.1"`,
		`1791640536000000 GET c.example.com:8080 /?q=2 invalid IP zone= cookie= headers=["" ""]`)
	check("$msec \"$request\" $http_host", `1791640536 "GET http://c.example.com/ HTTP/1.1" free.example`,
		`1791640536000000 GET c.example.com /? invalid IP zone= cookie= headers=["" ""]`)
	check("$msec $request_uri $http_host $server_name", "1791640536 / - ~^(?<shop>..+)$",
		`1791640536000000  ~^(?<shop>..+)$ /? invalid IP zone= cookie= headers=["" ""]`)
	check("$msec \"$uri\" $args|$http_x_api_key|$cookie_s|$authz_zone", "1791640536 \"/a b%/\" q=1|k 1|s1|one",
		`1791640536000000   /a b%?q=1 invalid IP zone=one cookie=S=s1 headers=["" "k 1"]`)
	check("$msec $uri|$http_cookie|$cookie_S", "1791640536 /|a=1; S=s2|s1",
		`1791640536000000   /? invalid IP zone= cookie=a=1; S=s2 headers=["" ""]`)
	check("json", `{"ts":1791640536.25,"uri":"/a%20b?q=1","client_ip":"[2001:db8::1]:443","http_host":"h","User-Agent":"u\n\u20ac","nested":{"X-Api-Key":"no","deeper":[{"zone":"z"},1,null]}}`,
		`1791640536250000  h /a b?q=1 2001:db8::1 zone=z cookie= headers=["u\n€" "no"]`)
	check("json", `{"time":"2026-10-10T13:55:36Z","request":{"method":"GET","uri":"/","headers":{"Uri":["/x"],"X-Api-Key":["k\"1",2,"k2"],"Cookie":["a=1"]}}}`,
		`1791640536000000 GET  /? invalid IP zone= cookie=a=1 headers=["" "k\"1, k2"]`)
	check("json", `{"ts":1791640536,"uri":"/","headers":{"User-Agent":["a\n",["b\u0020c",[]],{"X-Api-Key":["k\"1",["k2"]]},"d"]}}`,
		`1791640536000000   /? invalid IP zone= cookie= headers=["a\n, b c, d" "k\"1, k2"]`)
	check("json", `{"ts":1791640536,"uri":"/","headers":{"User-Agent":[["a","b"]],"X-Api-Key":[[]]}}`,
		`1791640536000000   /? invalid IP zone= cookie= headers=["a, b" ""]`)
	check("json", `{"ts":1791640536,"uri":"/","headers":{"User-Agent":[[["a"]`, "not in this format")
	check("json", `{"ts":1791640536,"uri":"/","headers":{"User-Agent":[[[[[[[[["a"]]]]]]]]]}}`, "not in this format")
	check("json", `{"msec":"1791640536.001","request":"/only/a/target","cookies":{"s":"s1","t":"x"},"x_api_key":null}`,
		`1791640536001000   /only/a/target? invalid IP zone= cookie=S=s1 headers=["" ""]`)
	check("ltsv", "time:10/Oct/2026:13:55:36 +0000\thost:203.0.113.9\tvhost:v\treq:GET / HTTP/1.1\tua:x\\x09y",
		`1791640536000000 GET v /? 203.0.113.9 zone= cookie= headers=["x\ty" ""]`)

	// what is no request, by kind
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "-" 408 0 "-" "-"`, "no request")
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "\x16\x03\x01" 400 0 "-" "-"`, "not HTTP")
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET" 400 0 "-" "-"`, "not HTTP")
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET /%00 HTTP/1.1" 400 0 "-" "-"`, "a target that nginx answers with 400")
	check("$msec $request_uri $http_host", "1791640536 / a..b", "a host that nginx answers with 400")
	check("$msec \"$request\"", `1791640536 "GET http://:80/ HTTP/1.1"`, "a host that nginx answers with 400")
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "CONNECT a:443 HTTP/1.1" 400 0 "-" "-"`, "a target that nginx answers with 400")
	check("combined", `203.0.113.9 - - [now] "GET / HTTP/1.1" 200 0 "-" "-"`, "no time")
	check("combined", `203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET / HTTP/1.1`, "not in this format")
	check("combined", "", "not in this format")
	check("json", `{"ts":1791640536,"uri":"/"`, "not in this format")
	check("json", `{"ts":1791640536,"uri":"/"} {}`, "not in this format")
	check("json", `{"ts":1791640536,"level":"info"}`, "no request")
	check("$msec $request_uri", "1791640536 / more", "a target that nginx answers with 400")
	check("$msec $request_uri.", "1791640536 /. more", "not in this format")
}

// What is not escaped is text: a backslash in it is one.
func TestAnUnescapedLogIsReadAsItIs(t *testing.T) {
	set := testkit.Limits(t, reading)
	sets := []*limits.Set{set}
	names := NewFieldNames(sets)
	f, err := FormatFrom(directives(`log_format a escape=none '$msec "$http_user_agent" $request_uri';`), "")
	if err != nil {
		t.Fatal(err)
	}
	got := asked(NewAttrsReader(names, sets), f.Bind(names), `1791640536 "a\x22\" /`)
	if want := `1791640536000000   /? invalid IP zone= cookie= headers=["a\\x22\\" ""]`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever a line is, it ends nothing, and what it makes is what a service can be asked.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`203.0.113.9 - - [10/Oct/2026:13:55:36 +0000] "GET /a?q=\x22 HTTP/1.1" 200 612 "-" "curl/8.5.0"`,
		`{"ts":1791640536.25,"request":{"method":"GET","uri":"/","headers":{"X-Api-Key":["k\"1",2]}}}`,
		"time:10/Oct/2026:13:55:36 +0000\thost:203.0.113.9\treq:GET / HTTP/1.1\tua:x\\x09y",
		`{"msec":"1","uri":"\ud83d\ude00\u00"}`,
	} {
		f.Add([]byte(line))
	}
	set := testkit.Limits(f, reading)
	sets := []*limits.Set{set}
	names := NewFieldNames(sets)
	r, match := NewAttrsReader(names, sets), limits.Match{}
	f.Fuzz(func(t *testing.T, line []byte) {
		for _, format := range formats {
			timeUS, flaw := r.Read(line, format.Bind(names))
			if flaw != Flawless {
				continue
			}
			a := r.AttrsOf(0)
			if timeUS <= 0 || len(a.Path) == 0 || a.Path[0] != '/' {
				t.Errorf("%s: time %d and path %q, want some", format, timeUS, a.Path)
			}
			set.Match(a, &match)
		}
	})
}

// A configuration gives a format or says why not; a format reads any line.
func FuzzFormat(f *testing.F) {
	f.Add(conf, "203.0.113.9 - \"GET / HTTP/1.1\" at=1791640536.1")
	f.Add("log_format a escape=none '${msec}x$uri", "1791640536x/")
	set := testkit.Limits(f, reading)
	sets := []*limits.Set{set}
	names := NewFieldNames(sets)
	f.Fuzz(func(t *testing.T, text, line string) {
		r := NewAttrsReader(names, sets)
		for _, name := range []string{"", "main", "plain", "coded", "a"} {
			if format, err := FormatFrom(directives(text), name); err == nil {
				r.Read([]byte(line), format.Bind(names))
			}
		}
		if format, err := ParseFormat(text); err == nil {
			r.Read([]byte(line), format.Bind(names))
		}
	})
}
