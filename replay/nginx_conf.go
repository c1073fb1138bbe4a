package replay

import (
	"errors"
	"fmt"
	"strings"
)

// FormatFrom takes a log_format out of the text of an nginx.conf: the one of that name, or the only one
// if name is empty. Files that the text includes are not read.
func FormatFrom(text, name string) (*Format, error) {
	found := map[string]int{}
	var all []logFormat
	for _, words := range directives(text) {
		if words[0] != "log_format" || len(words) < 3 {
			continue
		}
		l := logFormat{name: words[1]}
		rest := words[2:]
		switch rest[0] {
		case "escape=json", "escape=default":
			rest = rest[1:]
		case "escape=none":
			l.raw, rest = true, rest[1:]
		}
		l.text = strings.Join(rest, "")
		found[l.name] = len(all)
		all = append(all, l)
	}
	at, ok := found[name]
	switch {
	case len(all) == 0:
		return nil, errors.New("no log_format in it, want the file that has it (included files are not read)")
	case name == "" && len(all) > 1:
		return nil, fmt.Errorf("%d log_formats in it, want one by its name: %s", len(all), names(all))
	case name == "":
		at = 0
	case !ok:
		return nil, fmt.Errorf("no log_format %s in it, want one of: %s", name, names(all))
	}
	f, err := parseText(all[at].text)
	if err != nil {
		return nil, fmt.Errorf("log_format %s: %w", all[at].name, err)
	}
	named := *f
	named.name, named.raw = all[at].name, all[at].raw
	return &named, nil
}

type logFormat struct {
	name, text string
	raw        bool // escape=none
}

func names(all []logFormat) string {
	var list []string
	for _, l := range all {
		list = append(list, l.name)
	}
	return strings.Join(list, ", ")
}

// directives cuts a configuration into directives, each in its words, as nginx reads it. Blocks do not
// matter: a brace ends a directive too.
func directives(text string) [][]string {
	var all [][]string
	var words []string
	end := func() {
		if len(words) > 0 {
			all = append(all, words)
		}
		words = nil
	}
	for len(text) > 0 {
		switch c := text[0]; c {
		case ' ', '\t', '\r', '\n':
			text = text[1:]
		case '#':
			_, text, _ = strings.Cut(text, "\n")
		case ';', '{', '}':
			end()
			text = text[1:]
		default:
			var word string
			word, text = nextWord(text)
			words = append(words, word)
		}
	}
	end()
	return all
}

// nextWord cuts a word, quoted or not. A backslash keeps the quote, blank or backslash that follows it.
func nextWord(text string) (word, rest string) {
	var b strings.Builder
	ends := " \t\r\n;{}"
	if text[0] == '"' || text[0] == '\'' {
		ends, text = text[:1], text[1:]
	}
	for i := 0; i < len(text); i++ {
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
				return b.String(), text[i+1:]
			}
			return b.String(), text[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
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
