package limits

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const wantCond = `a table such as { path = "/api/**", method = ["GET", "HEAD"] }`

// cond reads match or unless.
func (t *table) cond(key string) condSpec {
	var c condSpec
	if !t.has(key) {
		return c
	}
	sub, ok := t.sub(key, wantCond, t.title)
	if !ok {
		return c
	}
	sub.within = key + "."
	known := []string{"path", "host", "method", "zone", "ip", "header", "query", "cookie"}
	sub.known(known...)
	if len(sub.values) == 0 {
		t.problem(key, "%s = {}, want at least one of %s in it", key, strings.Join(known, ", "))
	}
	c.path = listOf(sub, "path", `a path such as "/api/**"`, checkPathPattern)
	c.host = listOf(sub, "host", `a host such as "*.example.com"`, checkHostPattern)
	c.method = listOf(sub, "method", `a method such as "POST"`, checkMethodPattern)
	c.zone = listOf(sub, "zone", "a zone", checkText)
	c.ip = listOf(sub, "ip", errWantPrefix.Error(), parsePrefix)
	c.header = sub.nameSpecs("header", partHeader, checkHeaderName)
	c.query = sub.nameSpecs("query", partQuery, checkQueryName)
	c.cookie = sub.nameSpecs("cookie", partCookie, checkCookieName)
	return c
}

// listOf reads one string or a list of them and makes each canonical.
func listOf[T any](t *table, key, want string, read func(string) (T, error)) []T {
	var values []any
	switch v := t.values[key].(type) {
	case []any:
		values = v
		if len(v) == 0 {
			t.wrong(key, "%s, or a list of them", want)
		}
	case string:
		values = []any{v}
	default:
		if t.has(key) {
			t.wrong(key, "%s, or a list of them", want)
		}
	}
	var list []T
	for _, value := range values {
		s, ok := value.(string)
		if !ok {
			t.wrongValue(key, value, "%s", want)
			continue
		}
		canonical, err := read(s)
		if err != nil {
			t.wrongValue(key, value, "%s", err)
			continue
		}
		list = append(list, canonical)
	}
	return list
}

// nameSpecs reads the table of names and patterns at header, query or cookie.
func (t *table) nameSpecs(key string, kind partKind, checkName func(string) (string, error)) []nameSpec {
	if !t.has(key) {
		return nil
	}
	sub, ok := t.sub(key, `a table of names and patterns such as { NAME = "PATTERN" }`, t.title)
	if !ok {
		return nil
	}
	sub.within = t.within + key + "."
	sub.secret = func(name string) bool { return partSpec{kind, strings.ToLower(name)}.secret() }
	if len(sub.values) == 0 {
		t.problem(key, "%s%s = {}, want at least one NAME = \"PATTERN\" in it", t.within, key)
	}
	var list []nameSpec
	for _, name := range slices.Sorted(maps.Keys(sub.values)) {
		canonical, err := checkName(name)
		if err != nil {
			sub.problem(name, "%s%s, want %s", sub.within, quoteKey(name), err)
			continue
		}
		if slices.ContainsFunc(list, func(n nameSpec) bool { return n.name == canonical }) {
			sub.problem(name, "%s%s is there twice, want it once (case does not matter)", sub.within, quoteKey(name))
			continue
		}
		list = append(list, nameSpec{canonical, listOf(sub, name, "a pattern", checkText)})
	}
	slices.SortFunc(list, func(a, b nameSpec) int { return strings.Compare(a.name, b.name) })
	return list
}

// These check a pattern or a name and make it canonical. An error is what would be right.

func checkText(s string) (string, error) { return s, checkTextPattern(s) }

// checkMethodPattern refuses lower case: methods are compared as they are, "post" would never meet.
func checkMethodPattern(s string) (string, error) {
	if up := strings.ToUpper(s); up != s {
		return "", fmt.Errorf("%q: methods are in capitals", up)
	}
	return s, checkTextPattern(s)
}

// isHTTPName says whether a header or a cookie can have the name: a token of RFC 9110, 5.6.2.
func isHTTPName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(s[i])) {
			return false
		}
	}
	return s != ""
}

func checkHeaderName(name string) (string, error) {
	if !isHTTPName(name) {
		return "", errors.New(`a header's name such as "X-API-Key"`)
	}
	return strings.ToLower(name), nil
}

func checkCookieName(name string) (string, error) {
	if !isHTTPName(name) {
		return "", errors.New(`a cookie's name such as "session"`)
	}
	return name, nil
}

func checkQueryName(name string) (string, error) {
	if name == "" {
		return "", errors.New(`a parameter's name such as "user"`)
	}
	return name, nil
}
