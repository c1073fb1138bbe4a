package accesslog

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// unescape undoes what a log does to bytes that may not stand in a value: nginx writes \x22 for a quote,
// Apache \", and JSON has its own. All are undone in any format, since many logs are JSON whose values
// nginx has escaped in its own way. What is no escape stays.
func (f *fields) unescape(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value
	}
	start := len(f.text)
	for len(value) > 0 {
		c := value[0]
		value = value[1:]
		if c != '\\' || len(value) == 0 {
			f.text = append(f.text, c)
			continue
		}
		c = value[0]
		if n, decoded := hexEscape(value); n > 0 {
			f.text = utf8OrByte(f.text, c, decoded)
			value = value[n:]
			continue
		}
		value = value[1:]
		if plain := escaped[c]; plain != 0 {
			f.text = append(f.text, plain)
		} else {
			f.text = append(f.text, '\\', c)
		}
	}
	return f.text[start:len(f.text):len(f.text)]
}

// escaped is what stands for a byte after a backslash.
var escaped = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// utf8OrByte appends what \xHH or \uHHHH stands for.
func utf8OrByte(dst []byte, kind byte, r rune) []byte {
	if kind == 'x' {
		return append(dst, byte(r))
	}
	return utf8.AppendRune(dst, r)
}

// hexEscape reads xHH, uHHHH, or a pair of these that is one character; n is 0 if there is none.
func hexEscape(b []byte) (n int, r rune) {
	switch {
	case len(b) >= 3 && b[0] == 'x':
		if r, ok := hex(b[1:3]); ok {
			return 3, r
		}
	case len(b) >= 5 && b[0] == 'u':
		r, ok := hex(b[1:5])
		if !ok {
			return 0, 0
		}
		if utf16.IsSurrogate(r) && len(b) >= 11 && b[5] == '\\' && b[6] == 'u' {
			if low, ok := hex(b[7:11]); ok {
				if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
					return 11, both
				}
			}
		}
		return 5, r
	}
	return 0, 0
}

func hex(b []byte) (rune, bool) {
	var r rune
	for _, c := range b {
		r <<= 4
		switch {
		case '0' <= c && c <= '9':
			r |= rune(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r |= rune(c | 0x20 - 'a' + 10)
		default:
			return 0, false
		}
	}
	return r, true
}
