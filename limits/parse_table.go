package limits

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// A file is a limits file that is valid TOML.
type file struct {
	order int // among all files
	name  string
	text  []string // its lines
	meta  toml.MetaData
	top   map[string]toml.Primitive
	lines map[string]int // of every key, by its dotted path; nil until the first is asked for
}

// decode reads TOML. An error comes with the line that the library names. room is what the set may still have.
func decode(order int, name, text string, room *room) (*file, int, error) {
	if line, err := room.take(text); err != nil {
		return nil, line, err
	}
	f := &file{order: order, name: name, text: strings.Split(text, "\n")}
	var err error
	f.meta, err = toml.Decode(text, &f.top)
	if err == nil {
		return f, 0, nil
	}
	line := 1
	if bad, ok := err.(toml.ParseError); ok {
		line = max(1, bad.Position.Line)
		err = fmt.Errorf("%s", oneLine(bad.Message))
	}
	return nil, line, err
}

// oneLine words an error of the library, without line breaks and without the KEY of an override, which
// may be a secret.
func oneLine(message string) string {
	if end := strings.LastIndex(message, "' "); end > 0 && strings.HasPrefix(message, "Key '") {
		key, rest := message[len("Key '"):end], message[end+len("' "):]
		if strings.HasPrefix(key, "override.") {
			key = "this override"
		}
		if rest == "has already been defined." {
			return key + " is there twice, want it once"
		}
		message = key + " " + rest
	}
	message = "not TOML: " + message
	return strings.Map(func(r rune) rune {
		if !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, message)
}

// values is the whole file.
func (f *file) values() map[string]any {
	all := make(map[string]any, len(f.top))
	for key, value := range f.top {
		var v any
		if err := f.meta.PrimitiveDecode(value, &v); err != nil {
			panic("BUG: " + err.Error()) // anything fits into any
		}
		all[key] = v
	}
	return all
}

// line is where a key or a table header stands; for a table without a header, where its first key does.
func (f *file) line(path toml.Key) int {
	if f.lines == nil {
		f.lines = map[string]int{}
		for key, value := range f.top {
			f.note(toml.Key{key}, value)
		}
	}
	for n := len(path); n > 0; n-- { // the line of a key "" is said to be that of its table
		if line := f.lines[path[:n].String()]; line > 0 {
			return line
		}
	}
	return 1
}

// note remembers the lines of a key and of all that is in it, and returns the key's.
func (f *file) note(path toml.Key, value toml.Primitive) int {
	line := f.ask(path[len(path)-1], value)
	first := 0
	var inside map[string]toml.Primitive
	if f.meta.PrimitiveDecode(value, &inside) == nil {
		for key, value := range inside {
			if n := f.note(append(slices.Clip(path), key), value); first == 0 || 0 < n && n < first {
				first = n
			}
		}
	}
	if line == 0 {
		line = first
	}
	f.lines[path.String()] = line
	return line
}

// ask asks the library for a line. It tells lines in errors only, hence the type that nothing fits.
func (f *file) ask(key string, value toml.Primitive) int {
	var never chan int
	line := 0
	fmt.Sscanf(f.meta.PrimitiveDecode(value, &never).Error(), "toml: line %d ", &line)
	var v any
	if err := f.meta.PrimitiveDecode(value, &v); err == nil {
		if _, ok := v.(string); ok { // the line of a """string""" is its last: find the key above
			for n := line; n > 0; n-- {
				if strings.Contains(f.text[n-1], key) {
					return n
				}
			}
		}
	}
	return line
}

// A table is one TOML table: [limit.login], or the match in it.
type table struct {
	p      *parser
	file   *file
	title  string   // limit.login, as errors say it; a table in it has the same
	within string   // "match." for the match of a limit: what its keys begin with in errors
	path   []string // where it stands in the file
	values map[string]any
	secret func(key string) bool // whether the value at a key may be read by nobody; nil: none is
	meant  []string              // keys that unknown ones were taken for
}

// problem reports what is wrong at the line of a key.
func (t *table) problem(key, format string, args ...any) {
	t.report(append(slices.Clip(t.path), key), format, args...)
}

// complain reports what is wrong with the table as a whole, at its header.
func (t *table) complain(format string, args ...any) { t.report(t.path, format, args...) }

func (t *table) report(path []string, format string, args ...any) {
	where := ""
	if t.title != "" {
		where = t.title + ": "
	}
	line := t.file.line(path)
	text := fmt.Sprintf("%s:%d: %s", t.file.name, line, where) + fmt.Sprintf(format, args...)
	t.p.report(t.file.order, line, text)
}

// wrong reports a value that stands there, and what would be right.
func (t *table) wrong(key, want string, args ...any) { t.wrongValue(key, t.values[key], want, args...) }

// wrongValue is wrong for one value of a list.
func (t *table) wrongValue(key string, value any, want string, args ...any) {
	shown := show(value)
	if t.secret != nil && t.secret(key) {
		shown = "(a secret)"
	}
	t.problem(key, "%s%s = %s, want %s", t.within, quoteKey(key), shown, fmt.Sprintf(want, args...))
}

// unknown reports a key that has no meaning, with the nearest one that has.
func (t *table) unknown(key string, known ...string) {
	what := "key"
	switch t.values[key].(type) {
	case map[string]any, []map[string]any:
		what = "table"
	}
	want := "one of " + strings.Join(known, ", ")
	if near := nearest(key, known); near != "" {
		want = near
		t.meant = append(t.meant, near)
	}
	t.problem(key, "unknown %s %s%s, want %s", what, t.within, quoteKey(key), want)
}

// known reports the keys that are not among the known ones.
func (t *table) known(known ...string) {
	for _, key := range slices.Sorted(maps.Keys(t.values)) {
		if !slices.Contains(known, key) {
			t.unknown(key, known...)
		}
	}
}

func (t *table) has(key string) bool {
	_, ok := t.values[key]
	return ok
}

// absent says whether a key is to be missed. One that was misspelt has been reported.
func (t *table) absent(key string) bool { return !t.has(key) && !slices.Contains(t.meant, key) }

// sub is the table that stands at key; a value of another type is reported with what is wanted.
func (t *table) sub(key, want, title string) (*table, bool) {
	values, ok := t.values[key].(map[string]any)
	if !ok {
		t.wrong(key, "%s", want)
		return nil, false
	}
	return &table{p: t.p, file: t.file, title: title, path: append(slices.Clip(t.path), key), values: values}, true
}

// text is a string that was written; a value of another type is reported with what is wanted.
func (t *table) text(key, want string, args ...any) (string, bool) {
	s, ok := t.values[key].(string)
	if !ok && t.has(key) {
		t.wrong(key, want, args...)
	}
	return s, ok
}

// whole is a whole number that was written, from lo to hi; all else is reported.
func (t *table) whole(key string, lo, hi int64) (int64, bool) {
	n, ok := t.values[key].(int64)
	switch {
	case !ok && t.has(key):
		t.wrong(key, "a whole number, %s", span(lo, hi))
	case ok && (n < lo || n > hi):
		t.wrong(key, "%s", span(lo, hi))
		return 0, false
	}
	return n, ok
}

// word is one of a few words that was written, as its place among them; all else is reported.
func (t *table) word(key string, words ...string) (int, bool) {
	if !t.has(key) {
		return 0, false
	}
	s, _ := t.values[key].(string)
	i := slices.Index(words, s)
	if i < 0 {
		t.wrong(key, "%s", oneOf(s, words))
	}
	return i, i >= 0
}
