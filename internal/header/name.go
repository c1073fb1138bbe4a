// Package header reads HTTP header lines.
package header

import (
	"errors"
	"strings"
)

// Parse is the name and value of a header.
func Parse(text string) (header [2]string, err error) {
	name, value, ok := strings.Cut(text, ":")
	if !ok || name == "" {
		return header, errors.New("want NAME: VALUE")
	}
	return [2]string{name, strings.Trim(value, " \t")}, nil
}

// Canonical spells a header name as fasthttp does: a capital first and after each hyphen.
func Canonical(name string) string {
	b := []byte(strings.ToLower(name))
	for i, c := range b {
		if 'a' <= c && c <= 'z' && (i == 0 || b[i-1] == '-') {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
