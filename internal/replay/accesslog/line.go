package accesslog

import (
	"bytes"
)

// Bound is a Format that knows where its fields go.
type Bound struct {
	*Format
	places []Place // of the parts of a log_format
}

func (f *Format) Bind(n *FieldNames) *Bound {
	b := &Bound{Format: f}
	for _, p := range f.parts {
		b.places = append(b.places, n.of([]byte(p.variable)))
	}
	return b
}

// read takes the fields of a line. It is false for a line of another format.
func (b *Bound) read(line []byte, f *fields) bool {
	f.begin()
	switch {
	case b.json:
		return f.readJSON(line)
	case b.ltsv:
		return f.readLTSV(line)
	}
	if len(line) < len(b.head) || string(line[:len(b.head)]) != b.head {
		return false
	}
	line = line[len(b.head):]
	for i := range b.parts {
		after := b.parts[i].after
		end := len(line)
		if after != "" {
			if end = ending(line, after, b.raw); end < 0 {
				return false
			}
		}
		f.set(b.places[i], line[:end], b.raw)
		line = line[end+len(after):]
	}
	return b.open || len(line) == 0
}

// ending is where text stands in line. A quote after a backslash is a part of the value.
func ending(line []byte, text string, raw bool) int {
	for from := 0; ; {
		at := bytes.IndexByte(line[from:], text[0])
		if at < 0 || len(line)-from-at < len(text) {
			return -1
		}
		at += from
		if string(line[at:at+len(text)]) == text && (text[0] != '"' || raw || !backslashed(line[:at])) {
			return at
		}
		from = at + 1
	}
}

// backslashed says whether before ends with a backslash that is not itself escaped.
func backslashed(before []byte) bool {
	n := 0
	for n < len(before) && before[len(before)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// readLTSV reads "label:value<TAB>label:value".
func (f *fields) readLTSV(line []byte) bool {
	for more := true; more; {
		var piece []byte
		piece, line, more = bytes.Cut(line, []byte("\t"))
		label, value, ok := bytes.Cut(piece, []byte(":"))
		if !ok || len(label) == 0 {
			return false
		}
		at := f.names.of(label)
		switch string(label) {
		case "host": // the client's, vhost is the server's
			at = PlaceAddress
		case "uri":
			at = PlaceTarget
		}
		f.set(at, value, false)
	}
	return true
}
