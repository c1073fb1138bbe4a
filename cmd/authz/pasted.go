package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"regexp"
	"strings"
)

// logLine is a line of a log in the format common or combined, or like it: an address first, a request in quotes.
var logLine = regexp.MustCompile(`^(\S+) .*?"([A-Z]+) (\S+) HTTP/[0-9.]+"`)

// pasted reads a request that somebody has at hand: a line that explain --json reads, a line of an access log, or the
// lines of a request, as curl -v shows them. An address and a zone that the form has go before.
func pasted(text, ip, zone string) (q question, err error) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, "\n")
	switch m := logLine.FindStringSubmatch(first); {
	case strings.HasPrefix(text, "{"):
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.DisallowUnknownFields()
		if err := d.Decode(&q); err != nil {
			return q, errors.New("this is no request that authz explain --json reads")
		}
	case m != nil:
		q = question{IP: m[1], Method: m[2], URI: m[3]}
	default:
		words := strings.Fields(strings.TrimPrefix(first, ">"))
		if len(words) < 2 || len(words) > 3 {
			return q, errors.New("want a request such as POST /login, with its headers below it; a line of an access log; or JSON")
		}
		q = question{Method: words[0], URI: words[1], Headers: map[string][]string{}}
		for line := range strings.Lines(rest) {
			name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, ">")), ":")
			if !ok {
				continue
			}
			if value = strings.TrimSpace(value); strings.EqualFold(name, "Host") {
				q.Host = value
				continue
			}
			q.Headers[canonical(name)] = append(q.Headers[canonical(name)], value)
		}
	}
	if ip = strings.TrimSpace(ip); ip != "" {
		q.IP = ip
	}
	if zone = strings.TrimSpace(zone); zone != "" {
		q.Zone = zone
	}
	if u, err := url.Parse(q.URI); err == nil && u.IsAbs() {
		q.Host, q.URI = u.Host, u.RequestURI()
	}
	return q, nil
}
