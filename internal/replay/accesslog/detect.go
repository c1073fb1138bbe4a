package accesslog

import (
	"bytes"
)

// Detect finds out the format of a chunk: the one that most of its lines have, the first in the order of
// formats where as many have another; nil if no line has any. A line that says when has the format, be there
// a request in it or not: what scanners send is none.
func Detect(chunk []byte, n *FieldNames) *Format {
	var best *Format
	most := 0
	for _, f := range formats {
		b, r, good, rest := f.Bind(n), NewAttrsReader(n, nil), 0, chunk
		for len(rest) > 0 {
			var line []byte
			line, rest = CutLine(rest)
			if _, flaw := r.Read(line, b); flaw != otherFormat && flaw != noTime && flaw != tooLong {
				good++
			}
		}
		if good > most {
			best, most = f, good
		}
	}
	return best
}

// CutLine cuts the first line, without its end.
func CutLine(text []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(text, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), rest
}
