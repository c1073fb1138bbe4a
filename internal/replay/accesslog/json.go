package accesslog

import (
	"bytes"
)

// deepest is how many objects a field of a JSON line may stand in.
const deepest = 8

// inside says what the names of an object are.
type inside uint8

const (
	insideLine inside = iota
	insideHeaders
	insideCookies
)

// readJSON reads an object. The names of objects in it count like its own, so that
// {"request":{"method":"GET"}} is understood; those in "headers" and "cookies" are headers and cookies.
func (f *fields) readJSON(line []byte) bool {
	s := scanner{rest: line}
	return s.object(f, insideLine, 0) && len(s.blank()) == 0
}

// A scanner reads JSON, and is no stricter than it has to be to find the fields.
type scanner struct{ rest []byte }

// blank skips what stands between words, and returns what follows.
func (s *scanner) blank() []byte {
	for len(s.rest) > 0 && (s.rest[0] == ' ' || s.rest[0] == '\t' || s.rest[0] == '\r') {
		s.rest = s.rest[1:]
	}
	return s.rest
}

// next takes the byte c, if it is next.
func (s *scanner) next(c byte) bool {
	if rest := s.blank(); len(rest) == 0 || rest[0] != c {
		return false
	}
	s.rest = s.rest[1:]
	return true
}

func (s *scanner) object(f *fields, in inside, depth int) bool {
	if depth == deepest || !s.next('{') {
		return false
	}
	if s.next('}') {
		return true
	}
	for {
		name, ok := s.text()
		if !ok || !s.next(':') || !s.value(f, in, depth, name) {
			return false
		}
		if !s.next(',') {
			return s.next('}')
		}
	}
}

// value reads what has this name.
func (s *scanner) value(f *fields, in inside, depth int, name []byte) bool {
	rest := s.blank()
	if len(rest) == 0 {
		return false
	}
	switch rest[0] {
	case '{':
		return s.object(f, within(in, name), depth+1)
	case '[':
		return s.list(f, in, depth+1, name)
	case '"':
		text, ok := s.text()
		f.set(f.placeIn(in, name), text, false)
		return ok
	}
	word, ok := s.word()
	if string(word) != "null" {
		f.set(f.placeIn(in, name), word, true)
	}
	return ok
}

// list reads an array; of a header's lines, joined as those of a request are.
func (s *scanner) list(f *fields, in inside, depth int, name []byte) bool {
	first := len(f.listed)
	if !s.items(f, in, depth) {
		return false
	}
	lines, start := f.listed[first:], len(f.text)
	f.listed = f.listed[:first]
	for i, line := range lines {
		if i > 0 {
			f.text = append(f.text, ", "...)
		}
		before := len(f.text)
		if line = f.unescape(line); len(f.text) == before {
			f.text = append(f.text, line...)
		}
	}
	if len(lines) > 0 {
		f.set(f.placeIn(in, name), f.text[start:len(f.text):len(f.text)], true)
	}
	return true
}

// items puts the strings of an array into f.listed; those of an array in it, too.
func (s *scanner) items(f *fields, in inside, depth int) bool {
	if depth == deepest || !s.next('[') {
		return false
	}
	if s.next(']') {
		return true
	}
	for {
		rest := s.blank()
		if len(rest) == 0 {
			return false
		}
		var ok bool
		switch rest[0] {
		case '"':
			var text []byte
			text, ok = s.text()
			f.listed = append(f.listed, text)
		case '[':
			ok = s.items(f, in, depth+1)
		default:
			ok = s.value(f, in, depth, nil)
		}
		if !ok {
			return false
		}
		if !s.next(',') {
			return s.next(']')
		}
	}
}

// text reads a string, still escaped.
func (s *scanner) text() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	for from := 0; ; {
		end := bytes.IndexByte(s.rest[from:], '"')
		if end < 0 {
			return nil, false
		}
		if end += from; !backslashed(s.rest[:end]) {
			text := s.rest[:end]
			s.rest = s.rest[end+1:]
			return text, true
		}
		from = end + 1
	}
}

// word reads a number, true, false or null.
func (s *scanner) word() ([]byte, bool) {
	n := 0
	for n < len(s.rest) && s.rest[n] != ',' && s.rest[n] != '}' && s.rest[n] != ']' && s.rest[n] != ' ' {
		if c := s.rest[n]; c == '"' || c == '{' || c == '[' || c == ':' {
			return nil, false
		}
		n++
	}
	word := s.rest[:n]
	s.rest = s.rest[n:]
	return word, n > 0
}

// within is what the names of an object are that has this name.
func within(in inside, name []byte) inside {
	switch string(name) {
	case "headers", "request_headers":
		return insideHeaders
	case "cookies":
		return insideCookies
	}
	return in
}

// placeIn is the place of a name. In an object of headers or cookies no other name is known.
func (f *fields) placeIn(in inside, name []byte) Place {
	if in == insideLine {
		return f.names.of(name)
	}
	var few [64]byte
	prefix := "http_"
	if in == insideCookies {
		prefix = "cookie_"
	}
	if len(prefix)+len(name) > len(few) || len(name) == 0 {
		return Nowhere
	}
	return f.names.of(append(append(few[:0], prefix...), name...))
}
