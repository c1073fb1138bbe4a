package limits

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

// What the files of a set may have in all. The library needs some 3 KB of memory for a key or a table, 60 times its
// text: so much keeps a check and a reload under 1 GB.
const (
	mostBytes  = 64 << 20
	mostWeight = 1_000_000 // of keys and tables 4 each, of a dot 2, of another element of a list 1
	mostLines  = 2_000_000
	mostLevels = 16 // of brackets within each other, and dots of a key
)

// A room is what a set has had of that so far.
type room struct {
	bytes         int64
	weight, lines int
}

// add counts a file by its size, before it is read.
func (r *room) add(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // reading it says why
	}
	if r.bytes += info.Size(); r.bytes > mostBytes {
		return fmt.Errorf("%s: with it the limits files have more than %d MiB, want less", name, mostBytes>>20)
	}
	return nil
}

var errIrregular = errors.New("not a regular file")

// readRegular reads a file, without waiting for a pipe and no more than mostBytes.
func readRegular(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return "", errIrregular
	}
	var text strings.Builder
	n, err := io.Copy(&text, io.LimitReader(f, mostBytes+1))
	if err == nil && n > mostBytes {
		err = fmt.Errorf("more than %d MiB", mostBytes>>20)
	}
	return text.String(), err
}

// take counts a text. An error names the first line that is one too many, or has brackets nested or a key dotted as no
// limits file has: the library follows each bracket with a call and copies a key for each of its dots, so that a file of a
// few KB could end the process, and the limits in force with it.
func (r *room) take(text string) (line int, err error) {
	line = 1
	depth, dots := 0, 0
	quote := "" // the beginning of the string or comment that we are in
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\n' {
			line++
			r.lines++
			if len(quote) == 1 {
				quote = ""
			}
		}
		switch {
		case quote == "#":
		case quote != "":
			i = stringEnd(text, i, &quote)
		case c == '#':
			quote = "#"
		case c == '"' || c == '\'':
			if quote = text[i : i+1]; strings.HasPrefix(text[i+1:], quote+quote) {
				quote = text[i : i+3]
				i += 2
			}
		case c == '[' || c == '{':
			depth, dots = depth+1, 0
			r.weight += 4
		case c == ']' || c == '}':
			depth, dots = max(0, depth-1), 0
		case c == '.':
			dots++
			r.weight += 2
		case c == '=':
			dots = 0
			r.weight += 4
		case c == ',':
			dots = 0
			r.weight++
		case c == '\n':
			dots = 0
		}
		switch {
		case depth > mostLevels || dots > mostLevels:
			return line, fmt.Errorf("not a limits file: more than %d levels of tables or lists, want 4 at most", mostLevels)
		case r.weight > mostWeight || r.lines > mostLines:
			return line, fmt.Errorf("the limits files are too large from here on, want at most %d keys and tables in all, and %d lines",
				mostWeight/4, mostLines)
		}
	}
	return line, nil
}

// stringEnd goes on inside a string, and clears quote at its end.
func stringEnd(text string, i int, quote *string) int {
	switch q := *quote; {
	case q[0] == '"' && text[i] == '\\' && !strings.HasPrefix(text[i+1:], "\n"):
		return i + 1
	case strings.HasPrefix(text[i:], q):
		i += len(q) - 1
		for len(q) == 3 && strings.HasPrefix(text[i+1:], q[:1]) { // """ends with a quote""""
			i++
		}
		*quote = ""
	}
	return i
}
