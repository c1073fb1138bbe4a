package limits

import (
	"bytes"
	"strings"
	"testing"
)

func TestAPatternMeetsWhatItSays(t *testing.T) {
	meets := func(compile func(string) pattern, text, yes, no string) {
		t.Helper()
		p := compile(text)
		for _, value := range strings.Fields(yes) {
			if !p.meets([]byte(value)) {
				t.Errorf("%s does not meet %s", text, value)
			}
		}
		for _, value := range strings.Fields(no) {
			if p.meets([]byte(value)) {
				t.Errorf("%s meets %s", text, value)
			}
		}
	}
	path := func(text, yes, no string) { t.Helper(); meets(pathPattern, text, yes, no) }
	path("/", "/", "/a /a/b")
	path("/login", "/login", "/ /LOGIN /login/x /logi /loginx /x/login")
	path("/*", "/a /.env /*", "/ /a/b")
	path("/**", "/ /a /a/b /a/b/c", "")
	path("/v1/*", "/v1/a", "/v1 /v1/a/b /v2/a")
	path("/v1/**", "/v1 /v1/a /v1/a/b", "/ /v1a /v10/a /x/v1")
	path("/**/v1", "/v1 /a/v1 /a/b/v1", "/ /v1/a /av1")
	path("/a/**/b", "/a/b /a/x/b /a/x/y/b /a/b/b /a/a/b", "/a /b /a/bc /a/x/b/c /ab")
	path("/**/a/**", "/a /a/b /b/a /b/a/c", "/ /b /ab /b/ab")
	path("/a/**/b/*/**/c", "/a/b/x/c /a/b/x/y/c /a/q/b/x/c /a/b/b/c", "/a/b/c /a/x/c")
	path("/**/a/b/**/c", "/a/b/c /a/a/b/c /a/x/a/b/y/c", "/a/x/b/c /a/b")
	path("/**/a/**/a", "/a/a /a/b/a /x/a/a", "/a /a/b")
	path("/api/*/items", "/api/7/items", "/api/items /api/7/8/items /api/7/items/1")
	path("/x*", "/x /xy /x.y", "/ /yx /x/y")
	path("/*.php", "/a.php /.php /a.b.php", "/a.php5 /a/b.php")
	path("/a*b*c", "/abc /aXbYc /abcbc /abbc", "/ab /ac /acb /aXb/c")
	path("/a*ab", "/aab /aXab", "/ab")
	path("/*a*", "/a /bab /aa", "/b /")

	host := func(text, yes, no string) { t.Helper(); meets(hostPattern, text, yes, no) }
	host("example.com", "example.com", "a.example.com example.org com")
	host("*.example.com", "a.example.com", "example.com a.b.example.com aexample.com")
	host("**.example.com", "example.com a.example.com a.b.example.com", "aexample.com example.com.a")
	host("api.**", "api api.a api.a.b", "apia.b b.api")
	host("api-*.example.com", "api-1.example.com api-.example.com", "api.example.com api-1.a.example.com")
	host("**", "a a.b", "")

	value := func(text, yes, no string) { t.Helper(); meets(textPattern, text, yes, no) }
	value("gold", "gold", "Gold golden agold")
	value("g*", "g gold g/o.l*d", "agold")
	value("*", "a a/b.c", "")
	value("Bearer-*-x*", "Bearer--x Bearer-a-x-x1", "bearer-a-x Bearer-x")
}

func TestAListMeetsWithItsFirstPattern(t *testing.T) {
	l := newPatternList([]string{"/a/*", "/a/b", "/**", "/a/b", "/c"}, pathPattern)
	for value, want := range map[string]int{"/a/b": 0, "/a/x": 0, "/c": 2, "/": 2, "": -1} {
		if got := l.first([]byte(value)); got != want {
			t.Errorf("%q meets pattern %d first, want %d", value, got, want)
		}
	}
	literal := newPatternList([]string{"/a", "/*", "/b"}, pathPattern)
	for value, want := range map[string]int{"/a": 0, "/b": 1, "/x/y": -1} {
		if got := literal.first([]byte(value)); got != want {
			t.Errorf("%q meets pattern %d first, want %d", value, got, want)
		}
	}
}

func TestPathPatternsAreNormalisedLikePaths(t *testing.T) {
	check := func(in, want string) {
		t.Helper()
		got, err := checkPathPattern(in)
		if err != nil {
			got = "want " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	check("/login/", "/login")
	check("//%6cogin//*/", "/login/*")
	check("/./a/../b", "/b")
	check("/a%2Fb%3F%23%25", "/a/b?#%")
	check("/**/", "/**")
	check("/**/**/a/**/**/**/b/**/**", "/**/a/**/b/**")
	check("/caf%E9", "/caf\xe9")
	check("/a/../*", "/*")

	check("login", `want a path that begins with "/"`)
	check("", `want a path that begins with "/"`)
	check("/a?b", `want a path without "?" and "#" (%3F and %23 stand for those that are part of it)`)
	check("/a#b", `want a path without "?" and "#" (%3F and %23 stand for those that are part of it)`)
	check("/a%zz", "want a path that nginx accepts: it answers 400 to this one")
	check("/../a", "want a path that nginx accepts: it answers 400 to this one")
	check("/a b", "want a path that nginx accepts: it answers 400 to this one")
	check("/a%2Ab", `want a path without %2A: "*" is always a wildcard`)
	check("/%2a/../*", `want a path without %2A: "*" is always a wildcard`)
	check("/a/*/../b", `want a path without ".." after a "*"`)
	check("/a/**/%2e%2e", `want a path without ".." after a "*"`)
	check("/**/..", `want a path without ".." after a "*"`)
	check("/a**", `want "**" only as a whole segment, "*" is any text within one`)
	check("/***", `want "**" only as a whole segment, "*" is any text within one`)
	check("/a/**b/c", `want "**" only as a whole segment, "*" is any text within one`)
}

func TestHostPatternsAreLowerCaseNames(t *testing.T) {
	check := func(in, want string) {
		t.Helper()
		got, err := checkHostPattern(in)
		if err != nil {
			got = "want " + err.Error()
		}
		if got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	check("API.Example.com", "api.example.com")
	check("**.**.Example.*", "**.example.*")
	check("[2001:DB8::1]", "[2001:db8::1]")
	check("", "want a host: an empty one is missing, which no pattern meets")
	check("http://a", "want a host alone, such as api.example.com or *.example.com")
	check("a.", "want a host without its last dot")
	check("a:80", "want a host without its port")
	check("*:80", "want a host without its port")
	check("[::1]:80", "want a host without its port")
	check("2001:db8::1", "want an IPv6 address in brackets, such as [2001:db8::1]")
	check("a.b**", `want "**" only as a whole label, "*" is any text within one`)
}

// plainMeets is the meaning of a pattern, as slow as it is plain.
func plainMeets(pattern, value []string) bool {
	switch {
	case len(pattern) == 0:
		return len(value) == 0
	case pattern[0] == "**":
		return plainMeets(pattern[1:], value) || len(value) > 0 && plainMeets(pattern, value[1:])
	}
	return len(value) > 0 && plainGlob(pattern[0], value[0]) && plainMeets(pattern[1:], value[1:])
}

func plainGlob(glob, text string) bool {
	switch {
	case glob == "":
		return text == ""
	case glob[0] == '*':
		return plainGlob(glob[1:], text) || text != "" && plainGlob(glob, text[1:])
	}
	return text != "" && text[0] == glob[0] && plainGlob(glob[1:], text[1:])
}

func FuzzGlob(f *testing.F) {
	f.Add("/a/**/b*c", "/a/x/bxc")
	f.Add("/**/a/b/**/c", "/a/a/b/c")
	f.Add("a*b*a", "abba")
	f.Fuzz(func(t *testing.T, text, value string) {
		if len(text) > 24 || len(value) > 24 || value == "" {
			return // the plain one is exponential
		}
		same := func(kind string, got, want bool) {
			t.Helper()
			if got != want {
				t.Errorf("%s pattern %q meets %q: %v, want %v", kind, text, value, got, want)
			}
		}
		if checkTextPattern(text) == nil {
			p := textPattern(text)
			same("text", p.meets([]byte(value)), plainGlob(text, value))
		}
		if canonical, err := checkHostPattern(text); err == nil {
			p := hostPattern(canonical)
			same("host", p.meets([]byte(value)), plainMeets(strings.Split(canonical, "."), strings.Split(value, ".")))
		}
		canonical, err := checkPathPattern(text)
		path, _, ok := Target(nil, []byte(value))
		if err != nil || !ok {
			return
		}
		if again, err := checkPathPattern(strings.ReplaceAll(canonical, "%", "%25")); !strings.ContainsAny(canonical, "?# ") &&
			printable([]byte(canonical)) && (err != nil || again != canonical) {
			t.Errorf("%q is canonical, and then %q, %v", canonical, again, err)
		}
		segments := func(path string) []string {
			if path == "/" {
				return nil
			}
			return strings.Split(path[1:], "/")
		}
		p := pathPattern(canonical)
		same("path", p.meets(path), plainMeets(segments(canonical), segments(string(path))))
	})
}

// No pattern is slow: each of these would take years if every star were tried everywhere.
func TestNoPatternIsSlow(t *testing.T) {
	value := append(append([]byte("/"), bytes.Repeat([]byte("a/"), 16000)...), 'b')
	path := pathPattern("/**" + strings.Repeat("/a/**", 40) + "/c")
	if path.meets(value) {
		t.Error("a path meets a pattern that ends otherwise")
	}
	middle := pathPattern("/**/" + strings.Repeat("a/", 40) + "c/**")
	if middle.meets(value) {
		t.Error("a path meets a pattern with a segment that it lacks")
	}
	text := textPattern(strings.Repeat("*a", 40) + "*c")
	if text.meets(bytes.Repeat([]byte("a"), 64000)) {
		t.Error("a text meets a pattern that ends otherwise")
	}
	run := textPattern("*" + strings.Repeat("a", 200) + "b*")
	if run.meets(bytes.Repeat([]byte("a"), 64000)) {
		t.Error("a text meets a pattern with a run that it lacks")
	}
}
