package accesslog

import (
	"errors"
	"fmt"
	"strings"

	"authz/nginx"
)

// FormatFrom takes a log_format out of an nginx.conf: the one of that name, or the only one if name is empty.
func FormatFrom(conf []*nginx.Directive, name string) (*Format, error) {
	found := map[string]int{}
	var all []logFormat
	for _, words := range logFormats(conf) {
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
		return nil, errors.New("no log_format in it, want the file that has it")
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

// logFormats are the words of all log_format.
func logFormats(conf []*nginx.Directive) (all [][]string) {
	for _, d := range conf {
		if d.Name() == "log_format" && len(d.Words) > 2 {
			all = append(all, d.Words)
		}
		all = append(all, logFormats(d.Block)...)
	}
	return all
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
