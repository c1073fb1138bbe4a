package limits

import (
	"bytes"
	"strings"
	"testing"
)

// tests/service/paths_test.go asks a real nginx about thousands of targets; these are the ones to read.
func TestATargetIsSplitAsNginxDoes(t *testing.T) {
	check := func(target, want string) {
		t.Helper()
		got := "400"
		if path, query, ok := Target(nil, []byte(target)); ok {
			got = string(path) + " " + string(query)
		}
		if got != want {
			t.Errorf("%q: %q, want %q", target, got, want)
		}
	}
	for _, same := range []string{"/login", "//login", "/./login", "/%6cogin", "/login/", "/a/../login", "/login#x", "/%2flogin%2F"} {
		check(same, "/login ")
	}
	check("/login?x=1", "/login x=1")
	check("/LOGIN", "/LOGIN ")
	check("/a%252e%252e", "/a%2e%2e ")
	check("/a?b#c?d", "/a b")
	check("/a#b?c", "/a ")
	check("?x=/../%zz", "/ x=/../%zz")
	check("/a%3Fb%23c", "/a?b#c ")
	check("/", "/ ")
	check("//", "/ ")
	check("/..;/a", "/..;/a ")
	check("/a/..", "/ ")
	for _, bad := range []string{"", "a", "*", "/..", "/a/../..", "/%2e%2e", "/%00", "/%zz", "/%4", "/%", "/a b", "/a\x00", "/a\n", "/?\x7f", "http://a/b", "#"} {
		check(bad, "400")
	}
}

// plainTarget is what Target means: decode, then split at the slashes.
func plainTarget(target string) (path, query string, ok bool) {
	for _, c := range []byte(target) {
		if c <= ' ' || c == 0x7f {
			return "", "", false
		}
	}
	target, _, _ = strings.Cut(target, "#")
	raw, query, _ := strings.Cut(target, "?")
	if raw == "" && target != "" {
		raw = "/" // "?query"
	}
	if !strings.HasPrefix(raw, "/") {
		return "", "", false
	}
	var decoded strings.Builder
	for raw != "" {
		if raw[0] != '%' {
			decoded.WriteByte(raw[0])
			raw = raw[1:]
			continue
		}
		c, ok := unhex([]byte(raw[1:]))
		if !ok || c == 0 {
			return "", "", false
		}
		decoded.WriteByte(c)
		raw = raw[3:]
	}
	var segments []string
	for _, s := range strings.Split(decoded.String(), "/") {
		switch s {
		case "", ".":
		case "..":
			if len(segments) == 0 {
				return "", "", false
			}
			segments = segments[:len(segments)-1]
		default:
			segments = append(segments, s)
		}
	}
	return "/" + strings.Join(segments, "/"), query, true
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"/", "/a/../b?c#d", "/%2e%2e/a", "/a%2f..%2f%2e?x", "?x#y", "/a/./../b//", "/%zz", "/..", "/a%25%32%65"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, target []byte) {
		given := bytes.Clone(target)
		path, query, ok := Target(make([]byte, 3, 8), target)
		if !bytes.Equal(target, given) {
			t.Fatalf("the target %q became %q", given, target)
		}
		wantPath, wantQuery, wantOK := plainTarget(string(target))
		if string(path) != wantPath || ok && string(query) != wantQuery || ok != wantOK {
			t.Fatalf("%q: path %q, query %q, %v, want %q, %q, %v", target, path, query, ok, wantPath, wantQuery, wantOK)
		}
		if !ok {
			return
		}
		for _, s := range strings.Split(string(path[1:]), "/") {
			if s == "." || s == ".." || s == "" && len(path) > 1 {
				t.Fatalf("%q: path %q has a segment %q", target, path, s)
			}
		}
		again, _, ok := Target(nil, appendRaw(nil, path))
		if !ok || !bytes.Equal(again, path) {
			t.Fatalf("path %q, and then %q, %v", path, again, ok)
		}
	})
}

// appendRaw writes a path so that Target reads it as it is.
func appendRaw(dst, path []byte) []byte {
	for _, c := range path {
		if c == '/' || plain[c] {
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		}
	}
	return dst
}
