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
	mostLevels = 16  // of brackets within each other, and dots of a key
	longName   = 128 // so many bytes of the names around a key weigh 1 more
)

// A room is what a set has had of that so far.
type room struct {
	announced, bytes int64 // of files by their size, and as they were read
	weight, lines    int
}

var (
	errIrregular = errors.New("not a regular file")
	errTooLarge  = fmt.Errorf("with it the limits files have more than %d MiB, want less", mostBytes>>20)
)

// announce counts a file by its size, before any is read.
func (r *room) announce(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return nil // reading it says why
	}
	if r.announced += info.Size(); r.announced > mostBytes {
		return errTooLarge
	}
	return nil
}

// read reads a regular file. It never waits for a pipe, and a file that has grown since it was announced ends at the bound.
func (r *room) read(name string) (string, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errIrregular
	}
	left := mostBytes - r.bytes
	var text strings.Builder
	text.Grow(int(min(info.Size(), left)) + 1)
	n, err := io.Copy(&text, io.LimitReader(f, left+1))
	if r.bytes += n; err == nil && n > left {
		return "", errTooLarge
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
	var names nesting
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
			names.open(i, depth)
			depth, dots = depth+1, 0
			r.weight += 4
		case c == ']' || c == '}':
			depth, dots = max(0, depth-1), 0
			names.close(i, depth)
		case c == '.':
			dots++
			r.weight += 2
		case c == '=':
			dots = 0
			r.weight += 4 + names.key(i, depth)/longName
		case c == ',':
			dots = 0
			r.weight++
			names.next(i)
		case c == '\n':
			dots = 0
			names.next(i)
		}
		switch {
		case depth > mostLevels || dots > mostLevels:
			return line, fmt.Errorf("not a limits file: more than %d levels of tables or lists, want 4 at most", mostLevels)
		case r.weight > mostWeight || r.lines > mostLines:
			return line, fmt.Errorf("the limits files are too large from here on, want at most %d keys and tables in all (fewer in tables with a name over %d bytes), and %d lines",
				mostWeight/4, longName, mostLines)
		}
	}
	return line, nil
}

// nesting knows how long the names are that a key is in, for the library holds a key with all of them.
type nesting struct {
	within [mostLevels + 2]int // the bytes of the names around, by depth; the first is that of the table's header
	start  int                 // where the key, or the header, begins
	last   int                 // the bytes of the key that has a value now
	valued bool                // a key has been read since start
	header bool                // a header has begun
}

// open enters a table or a list. One that no key has is a header.
func (n *nesting) open(at, depth int) {
	if depth == 0 && !n.valued {
		n.start, n.header = at, true
		return
	}
	n.within[depth+1] = n.within[depth] + n.last
	n.next(at)
}

// close leaves it, for what is at depth.
func (n *nesting) close(at, depth int) {
	if depth == 0 && n.header {
		n.within[0], n.header = at-n.start, false
	}
}

// key has read a key, and returns the bytes of the names that it is in.
func (n *nesting) key(at, depth int) int {
	n.last, n.valued = at-n.start, true
	return n.within[depth]
}

// next begins another key, element or line.
func (n *nesting) next(at int) { n.start, n.last, n.valued = at+1, 0, false }

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
