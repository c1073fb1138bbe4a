package header

import (
	"bytes"
)

// IsLower says whether text, in lower case, begins with want.
func IsLower(text []byte, want string) bool {
	if len(text) < len(want) {
		return false
	}
	for i := range len(want) {
		if Lower[text[i]] != want[i] {
			return false
		}
	}
	return true
}

// Lower is a byte as header names have it in lower case.
var Lower = func() (table [256]byte) {
	for i := range table {
		table[i] = byte(i)
		if 'A' <= i && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()

// NextLine cuts the first line of a header block that fasthttp has read and found good: a name and a
// value without the space around it. ok is false at the end; folded: the line goes on in the next.
func NextLine(block []byte) (name, value, rest []byte, folded, ok bool) {
	end := bytes.IndexByte(block, '\n')
	colon := bytes.IndexByte(block, ':')
	if colon < 0 || end < colon {
		return nil, nil, nil, false, false
	}
	rest = block[end+1:]
	folded = len(rest) > 0 && (rest[0] == ' ' || rest[0] == '\t')
	first, last := colon+1, end
	for first < last && (block[first] == ' ' || block[first] == '\t') {
		first++
	}
	if first < last && block[last-1] == '\r' {
		last--
	}
	for first < last && (block[last-1] == ' ' || block[last-1] == '\t') {
		last--
	}
	return block[:colon], block[first:last:last], rest, folded, true
}
