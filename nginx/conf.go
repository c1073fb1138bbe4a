package nginx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Directive is one of a configuration, as nginx reads it: its words, without quotes, and what stands in its braces.
type Directive struct {
	File  string
	Line  int
	Words []string     // the name first
	Block []*Directive // nil: it ends in ;
	Lua   string       // what stands in the braces of a ..._by_lua_block instead
}

// Name is the first word.
func (d *Directive) Name() string { return d.Words[0] }

// Args are the others.
func (d *Directive) Args() []string { return d.Words[1:] }

const (
	mostDepth = 50
	mostFiles = 100_000 // read, each as often as it is included: a host of many sites has some thousands
)

// Read reads a configuration with all that it includes. An include stands for what is in its files; those that match no
// file are left out, as nginx does with a pattern. The error says which file and line.
func Read(path string) ([]*Directive, error) {
	path = filepath.Clean(path)
	r := &reader{prefix: filepath.Dir(path)}
	return r.file(path)
}

// Parse reads a text, and includes nothing. What could be read is returned with the error.
func Parse(file, text string) ([]*Directive, error) {
	p := &parser{file: file, text: text, line: 1}
	all := p.block(0)
	return all, p.err
}

type reader struct {
	prefix string   // of relative includes
	open   []string // the file that is read, and those that include it
	files  int
}

func (r *reader) file(path string) ([]*Directive, error) {
	if r.files++; r.files > mostFiles || len(r.open) > mostDepth {
		return nil, fmt.Errorf("%s: more than %d files, or %d within each other, want less", path, mostFiles, mostDepth)
	}
	r.open = append(r.open, path)
	defer func() { r.open = r.open[:len(r.open)-1] }()
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := Parse(path, string(text))
	if err != nil {
		return nil, err
	}
	return r.included(all)
}

// included puts in place of each include what is in its files.
func (r *reader) included(all []*Directive) (whole []*Directive, err error) {
	for _, d := range all {
		if d.Name() != "include" || len(d.Words) != 2 {
			if d.Block != nil {
				if d.Block, err = r.included(d.Block); err != nil {
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
			if slices.Contains(r.open, path) {
				return nil, fmt.Errorf("%s:%d: include %s: %s would include itself", d.File, d.Line, d.Words[1], path)
			}
			more, err := r.file(path)
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
		d.Lua = p.lua()
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

// lua cuts a block of Lua, with its braces, strings and comments.
func (p *parser) lua() string {
	whole := p.text
	for depth := 1; len(p.text) > 0; {
		switch c := p.text[0]; {
		case c == '{':
			depth++
		case c == '}':
			if depth--; depth == 0 {
				code := whole[:len(whole)-len(p.text)]
				p.skip(1)
				return code
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
	return whole
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

// word cuts a word, quoted or not. What follows a backslash ends nothing.
func (p *parser) word() string {
	var b strings.Builder
	text, ends := p.text, " \t\r\n;{" // } in a word is of the word
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

// kept is what nginx makes of a backslash and the byte after it: most backslashes stay, for regular expressions.
func kept(c byte) string {
	switch c {
	case 't':
		return "\t"
	case 'r':
		return "\r"
	case 'n':
		return "\n"
	case '"', '\'', '\\':
		return string(c)
	}
	return `\` + string(c)
}
