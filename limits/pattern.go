package limits

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// A pattern is what a value must look like. Paths and hosts are made of pieces (segments, labels):
// "*" is any text within one, "**" any number of whole ones. Any other value is one piece.
//
// Each run of pieces, and each run of text, is looked for once, leftmost first: what stands between
// stars can do no better further right. So no pattern is slow, whatever the value.
type pattern struct {
	text   string    // canonical
	sep    byte      // '/' in a path, '.' in a host, 0: the value is one piece
	groups [][]piece // the pieces between one "**" and the next
}

// A piece is one segment, label or value, cut at its stars: prefix*middle*middle*suffix.
type piece struct {
	prefix, suffix string
	middle         []string
	star           bool // false: prefix is all
}

func pathPattern(canonical string) pattern { return newPattern(canonical, canonical[1:], '/') }
func hostPattern(canonical string) pattern { return newPattern(canonical, canonical, '.') }
func textPattern(text string) pattern {
	return pattern{text: text, groups: [][]piece{{newPiece(text)}}}
}

func newPattern(text, pieces string, sep byte) pattern {
	p := pattern{text: text, sep: sep, groups: [][]piece{nil}}
	if pieces == "" {
		return p
	}
	for s := range strings.SplitSeq(pieces, string(sep)) {
		if s == "**" {
			p.groups = append(p.groups, nil)
			continue
		}
		last := len(p.groups) - 1
		p.groups[last] = append(p.groups[last], newPiece(s))
	}
	return p
}

func newPiece(s string) piece {
	runs := strings.Split(s, "*")
	p := piece{prefix: runs[0]}
	if last := len(runs) - 1; last > 0 {
		p.star, p.suffix = true, runs[last]
		for _, run := range runs[1:last] {
			if run != "" {
				p.middle = append(p.middle, run)
			}
		}
	}
	return p
}

// literal says whether only one value meets the pattern: its text.
func (p *pattern) literal() bool { return !strings.Contains(p.text, "*") }

// meets says whether the value, which is not empty, meets the pattern.
func (p *pattern) meets(value []byte) bool {
	if p.sep == 0 {
		return p.groups[0][0].meets(value)
	}
	rest := pieces{value, p.sep, true}
	if p.sep == '/' {
		if value[0] != '/' {
			return false
		}
		rest.text = value[1:]
		rest.some = len(rest.text) > 0 // "/" has no segments
	}
	if !rest.cutFront(p.groups[0]) {
		return false
	}
	last := len(p.groups) - 1
	if last == 0 {
		return !rest.some
	}
	if !rest.cutBack(p.groups[last]) {
		return false
	}
	for _, group := range p.groups[1:last] {
		for !rest.cutFront(group) {
			if !rest.some {
				return false
			}
			rest.next()
		}
	}
	return true
}

// pieces is what is left of a value to be matched.
type pieces struct {
	text []byte
	sep  byte
	some bool // false: no piece is left (an empty text is one empty piece)
}

// next cuts the first piece.
func (r *pieces) next() []byte {
	cut := bytes.IndexByte(r.text, r.sep)
	if cut < 0 {
		r.some = false
		return r.text
	}
	first := r.text[:cut]
	r.text = r.text[cut+1:]
	return first
}

// cutFront cuts as many pieces as the group has, if they meet it; else nothing is cut.
func (r *pieces) cutFront(group []piece) bool {
	rest := *r
	for i := range group {
		if !rest.some || !group[i].meets(rest.next()) {
			return false
		}
	}
	*r = rest
	return true
}

// cutBack is cutFront at the other end.
func (r *pieces) cutBack(group []piece) bool {
	rest := *r
	for i := len(group) - 1; i >= 0; i-- {
		if !rest.some {
			return false
		}
		cut := bytes.LastIndexByte(rest.text, rest.sep)
		if !group[i].meets(rest.text[cut+1:]) {
			return false
		}
		if rest.some = cut >= 0; rest.some {
			rest.text = rest.text[:cut]
		}
	}
	*r = rest
	return true
}

func (p *piece) meets(text []byte) bool {
	if !p.star {
		return string(text) == p.prefix
	}
	if len(text) < len(p.prefix)+len(p.suffix) || string(text[:len(p.prefix)]) != p.prefix {
		return false
	}
	text = text[len(p.prefix):]
	end := len(text) - len(p.suffix)
	if string(text[end:]) != p.suffix {
		return false
	}
	text = text[:end]
	for _, run := range p.middle {
		at := find(text, run)
		if at < 0 {
			return false
		}
		text = text[at+len(run):]
	}
	return true
}

// find is bytes.Index for a string: it skips from first byte to first byte.
func find(text []byte, run string) int {
	for at := 0; len(text)-at >= len(run); at++ {
		next := bytes.IndexByte(text[at:], run[0])
		if next < 0 || len(text)-at-next < len(run) {
			return -1
		}
		if at += next; string(text[at:at+len(run)]) == run {
			return at
		}
	}
	return -1
}

// A patternList is some patterns, any of which will do.
type patternList struct {
	literal map[string]int // the place of each literal pattern
	globs   []pattern      // the others
	places  []int          // and theirs
}

func newPatternList(texts []string, compile func(string) pattern) *patternList {
	l := &patternList{literal: map[string]int{}}
	for place, text := range texts {
		p := compile(text)
		if !p.literal() {
			l.globs = append(l.globs, p)
			l.places = append(l.places, place)
		} else if _, known := l.literal[text]; !known {
			l.literal[text] = place
		}
	}
	return l
}

// first is the place of the first pattern that the value meets, -1 for none. A missing value meets
// none.
func (l *patternList) first(value []byte) int {
	if len(value) == 0 {
		return -1
	}
	first, ok := l.literal[string(value)]
	if !ok {
		first = -1
	}
	for i := range l.globs {
		if ok && l.places[i] > first {
			break
		}
		if l.globs[i].meets(value) {
			return l.places[i]
		}
	}
	return first
}

// checkPathPattern makes a path pattern canonical: normalised as Target normalises a path. Like those of
// its neighbours, its error says what is wanted instead.
func checkPathPattern(s string) (string, error) {
	switch {
	case !strings.HasPrefix(s, "/"):
		return "", errors.New(`a path that begins with "/"`)
	case strings.ContainsAny(s, "?#"):
		return "", errors.New(`a path without "?" and "#" (%3F and %23 stand for those that are part of it)`)
	case strings.Contains(strings.ToUpper(s), "%2A"):
		return "", errors.New(`a path without %2A: "*" is always a wildcard`)
	}
	path, _, ok := Target(nil, []byte(s))
	if !ok {
		return "", errors.New("a path that nginx accepts: it answers 400 to this one")
	}
	canonical := string(path)
	if strings.Count(canonical, "*") < strings.Count(s, "*") {
		return "", errors.New(`a path without ".." after a "*"`)
	}
	return checkPieces(canonical, canonical[1:], "/", "segment")
}

// checkHostPattern makes a host pattern canonical: lower case.
func checkHostPattern(s string) (string, error) {
	s = strings.ToLower(s)
	switch {
	case s == "":
		return "", errors.New("a host: an empty one is missing, which no pattern meets")
	case strings.ContainsAny(s, "/?#@ "):
		return "", errors.New("a host alone, such as api.example.com or *.example.com")
	case s[len(s)-1] == '.':
		return "", errors.New("a host without its last dot")
	case s[0] != '[' && strings.Count(s, ":") > 1:
		return "", errors.New("an IPv6 address in brackets, such as [2001:db8::1]")
	case len(hostName([]byte(s))) < len(s):
		return "", errors.New("a host without its port")
	}
	return checkPieces(s, s, ".", "label")
}

// checkPieces refuses a "**" that is not a whole piece, and makes one of several in a row.
func checkPieces(canonical, pieces, sep, what string) (string, error) {
	for s := range strings.SplitSeq(pieces, sep) {
		if strings.Contains(s, "**") && s != "**" {
			return "", fmt.Errorf(`"**" only as a whole %s, "*" is any text within one`, what)
		}
	}
	double := "**" + sep + "**"
	for strings.Contains(canonical, double) {
		canonical = strings.ReplaceAll(canonical, double, "**")
	}
	return canonical, nil
}

// checkTextPattern checks a pattern for anything but a path or a host.
func checkTextPattern(s string) error {
	switch {
	case s == "":
		return errors.New("some text: an empty value is missing, which no pattern meets")
	case strings.Contains(s, "**"):
		return errors.New(`"*" alone, which is any text here ("**" is for paths and hosts)`)
	}
	return nil
}
