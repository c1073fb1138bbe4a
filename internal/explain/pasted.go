package explain

import (
	"cmp"
	"errors"
	"regexp"
	"strings"

	"authz/internal/header"
	"authz/limits"
)

// logLine is a line of a log in the format common or combined, or like it: an address first, a request in quotes.
var logLine = regexp.MustCompile(`^(\S+) .*?"([A-Z]+) (\S+) HTTP/[0-9.]+"`)

// ParsePasted reads a request that somebody has at hand: a line that explain --json reads, a line of an access log, or the
// lines of a request, as curl -v shows them. An address and a zone that the form has go before.
func ParsePasted(text, ip, zone string) (q Question, err error) {
	text = strings.TrimSpace(text)
	first, rest, _ := strings.Cut(text, "\n")
	switch m := logLine.FindStringSubmatch(first); {
	case strings.HasPrefix(text, "{"):
		if q, err = readQuestion([]byte(text)); err != nil {
			return q, err
		}
	case m != nil:
		q = Question{IP: m[1], Method: m[2], URI: m[3]}
	default:
		words := strings.Fields(strings.TrimPrefix(first, ">"))
		if len(words) < 2 || len(words) > 3 {
			return q, errors.New("want a request such as POST /login, with its headers below it; a line of an access log; or JSON")
		}
		q = Question{Method: words[0], URI: words[1], Headers: map[string][]string{}}
		for line := range strings.Lines(rest) {
			pair, err := header.Parse(strings.TrimSpace(strings.TrimPrefix(line, ">")))
			switch name := header.Canonical(pair[0]); {
			case err != nil: // no header, such as the end of them
			case name == "Host":
				q.Host = pair[1]
			default:
				q.Headers[name] = append(q.Headers[name], pair[1])
			}
		}
	}
	if ip = strings.TrimSpace(ip); ip != "" {
		q.IP = ip
	}
	if zone = strings.TrimSpace(zone); zone != "" {
		q.Zone = zone
	}
	if host, target, ok := limits.SplitURL([]byte(cmp.Or(q.URI, "/"))); ok && host != nil {
		q.Host, q.URI = string(host), string(target)
	}
	return q, nil
}
