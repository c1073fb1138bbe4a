package nginx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Directive is one of a configuration, as nginx reads it: its words, without quotes, and what stands in its braces.
type Directive struct {
	File  string
	Line  int
	Words []string     // the name first
	Block []*Directive // nil: it ends in ;
}

// Name is the first word.
func (d *Directive) Name() string { return d.Words[0] }

// Args are the others.
func (d *Directive) Args() []string { return d.Words[1:] }

const (
	mostDepth = 50
	mostFiles = 1000
)

// Read reads a configuration with all that it includes. An include stands for what is in its files; those that match no
// file are left out, as nginx does with a pattern. The error says which file and line.
func Read(path string) ([]*Directive, error) {
	r := &reader{prefix: filepath.Dir(path)}
	return r.file(path, 0)
}

// Parse reads a text, and includes nothing. What could be read is returned with the error.
func Parse(file, text string) ([]*Directive, error) {
	p := &parser{file: file, text: text, line: 1}
	all := p.block(0)
	return all, p.err
}

type reader struct {
	prefix string // of relative includes
	files  int
}

func (r *reader) file(path string, depth int) ([]*Directive, error) {
	if r.files++; r.files > mostFiles || depth > mostDepth {
		return nil, fmt.Errorf("%s: more than %d files, or %d within each other: does one include itself?", path, mostFiles, mostDepth)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := Parse(path, string(text))
	if err != nil {
		return nil, err
	}
	return r.included(all, depth)
}

// included puts in place of each include what is in its files.
func (r *reader) included(all []*Directive, depth int) (whole []*Directive, err error) {
	for _, d := range all {
		if d.Name() != "include" || len(d.Words) != 2 {
			if d.Block != nil {
				if d.Block, err = r.included(d.Block, depth); err != nil {
					return nil, err
				}
				if d.Block == nil {
					d.Block = []*Directive{}
				}
			}
			whole = append(whole, d)
			continue
		}
		pattern := d.Words[1]
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(r.prefix, pattern)
		}
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 && !strings.ContainsAny(pattern, "*?[") {
			return nil, fmt.Errorf("%s:%d: include %s: no such file", d.File, d.Line, d.Words[1])
		}
		for _, path := range paths {
			more, err := r.file(path, depth+1)
			if err != nil {
				return nil, err
			}
			whole = append(whole, more...)
		}
	}
	return whole, nil
}

type parser struct {
	file, text string
	line       int
	err        error
}

// block reads directives until a brace closes it, or the text ends.
func (p *parser) block(depth int) []*Directive {
	all := []*Directive{}
	var d *Directive
	for len(p.text) > 0 && p.err == nil {
		switch c := p.text[0]; c {
		case ' ', '\t', '\r', '\n':
			p.skip(1)
		case '#':
			p.skip(len(p.text) - len(strings.TrimLeft(p.text, "#")))
			if end := strings.IndexByte(p.text, '\n'); end >= 0 {
				p.skip(end)
			} else {
				p.skip(len(p.text))
			}
		case ';', '{':
			p.skip(1)
			if d == nil {
				p.fail("%q without a name before it", c)
				break
			}
			if c == '{' {
				p.inner(d, depth)
			}
			all, d = append(all, d), nil
		case '}':
			if d != nil {
				all = append(all, d)
				p.fail("want ; after %s", d.Words[len(d.Words)-1])
			} else if depth == 0 {
				p.fail("} closes nothing")
			}
			p.skip(1)
			return all
		default:
			if d == nil {
				d = &Directive{File: p.file, Line: p.line}
			}
			d.Words = append(d.Words, p.word())
		}
	}
	if d != nil {
		all = append(all, d)
		p.fail("want ; at the end")
	} else if depth > 0 {
		p.fail("want } at the end")
	}
	return all
}

func (p *parser) inner(d *Directive, depth int) {
	switch {
	case strings.HasSuffix(d.Name(), "_by_lua_block"):
		p.lua()
		d.Block = []*Directive{}
	case depth == mostDepth:
		p.fail("more than %d braces within each other", mostDepth)
	default:
		d.Block = p.block(depth + 1)
	}
}

func (p *parser) fail(format string, a ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s:%d: %w", p.file, p.line, fmt.Errorf(format, a...))
	}
}

func (p *parser) skip(n int) {
	p.line += strings.Count(p.text[:n], "\n")
	p.text = p.text[n:]
}

// lua skips a block of Lua, with its braces, strings and comments.
func (p *parser) lua() {
	for depth := 1; len(p.text) > 0; {
		switch c := p.text[0]; {
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				p.skip(1)
				return
			}
		case c == '"' || c == '\'':
			end := 1
			for end < len(p.text) && p.text[end] != c && p.text[end] != '\n' {
				if p.text[end] == '\\' {
					end++
				}
				end++
			}
			p.skip(min(end, len(p.text)-1))
		case strings.HasPrefix(p.text, "--") && longBracket(p.text[2:]) == "":
			if end := strings.IndexByte(p.text, '\n'); end > 0 {
				p.skip(end)
				continue
			}
		case longBracket(p.text) != "":
			if end := strings.Index(p.text, longBracket(p.text)); end > 0 {
				p.skip(end)
			}
		}
		p.skip(1)
	}
	p.fail("want } at the end")
}

// longBracket is what ends a string or comment that begins with [[ or [==[, "" if none does.
func longBracket(text string) string {
	rest, ok := strings.CutPrefix(text, "[")
	equals := len(rest) - len(strings.TrimLeft(rest, "="))
	if !ok || equals >= len(rest) || rest[equals] != '[' {
		return ""
	}
	return "]" + rest[:equals] + "]"
}

// word cuts a word, quoted or not. A backslash keeps the quote, blank or backslash that follows it.
func (p *parser) word() string {
	var b strings.Builder
	text, ends := p.text, " \t\r\n;{}"
	i := 0
	if text[0] == '"' || text[0] == '\'' {
		ends, i = text[:1], 1
	}
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '$' && i+1 < len(text) && text[i+1] == '{': // a brace of ${name} ends nothing
			b.WriteString("${")
			i++
			for i+1 < len(text) && text[i+1] != '}' && !strings.ContainsRune(ends, rune(text[i+1])) {
				i++
				b.WriteByte(text[i])
			}
			if i+1 < len(text) && text[i+1] == '}' {
				i++
				b.WriteByte('}')
			}
		case c == '\\' && i+1 < len(text):
			i++
			b.WriteString(kept(text[i]))
		case strings.IndexByte(ends, c) >= 0:
			if len(ends) == 1 { // the quote
				i++
			}
			p.skip(i)
			return b.String()
		default:
			b.WriteByte(c)
		}
	}
	p.skip(len(text))
	if len(ends) == 1 {
		p.err = errors.Join(p.err, fmt.Errorf("%s:%d: want %s at the end", p.file, p.line, ends))
	}
	return b.String()
}

// kept is what a byte after a backslash stands for.
func kept(c byte) string {
	switch c {
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	case '"', '\'', '\\', ' ', ';', '{', '}':
		return string(c)
	}
	return `\` + string(c)
}
