// Package accesslog reads the lines of access logs: their formats, fields and clocks, and the attributes that the service
// would have had.
package accesslog

import (
	"fmt"
	"slices"
	"strings"
)

// A Format is how the lines of a log are written.
type Format struct {
	name string
	json bool
	ltsv bool
	raw  bool // values are not escaped
	open bool // a line may go on after what is known of it

	// Of a log_format: the text before the first variable, and each variable with the text after it.
	head  string
	parts []formatPart
}

type formatPart struct{ variable, after string }

// String is the name of the format, or its text.
func (f *Format) String() string { return f.name }

// The formats that need no text.
var formats = []*Format{
	{name: "json", json: true},
	{name: "ltsv", ltsv: true},
	wellKnown("combined", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`),
	wellKnown("common", `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`),
}

func wellKnown(name, text string) *Format {
	f, err := parseText(text)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	f.name, f.open = name, true
	return f
}

// ParseFormat reads "combined", "common", "json", "ltsv", or the text of a log_format. The error says
// what is there and what would be right.
func ParseFormat(text string) (*Format, error) {
	for _, f := range formats {
		if f.name == text {
			return f, nil
		}
	}
	if !strings.Contains(text, "$") {
		return nil, fmt.Errorf("%q, want combined, common, json, ltsv, or the text of a log_format, such as '$remote_addr [$time_local] \"$request\"'", text)
	}
	return parseText(text)
}

func parseText(text string) (*Format, error) {
	f := &Format{name: text}
	head, rest, _ := strings.Cut(text, "$")
	f.head = head
	for more := true; more; {
		var piece string
		piece, rest, more = strings.Cut(rest, "$")
		p, ok := newFormatPart(piece)
		if !ok {
			return nil, fmt.Errorf("%q: a $ without a name, want a variable such as $remote_addr or ${remote_addr}", text)
		}
		if p.after == "" && more {
			return nil, fmt.Errorf("%q: nothing stands between $%s and the next variable, want some text that tells them apart", text, p.variable)
		}
		f.parts = append(f.parts, p)
	}
	return f, f.check()
}

// newFormatPart cuts "name text" or "{name}text".
func newFormatPart(piece string) (p formatPart, ok bool) {
	if inner, braced := strings.CutPrefix(piece, "{"); braced {
		p.variable, p.after, ok = strings.Cut(inner, "}")
		return p, ok && p.variable != ""
	}
	p.after = strings.TrimLeft(piece, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
	p.variable = piece[:len(piece)-len(p.after)]
	return p, p.variable != ""
}

// check makes sure that a line says when it was written and what was asked for.
func (f *Format) check() error {
	has := func(places ...Place) bool {
		return slices.ContainsFunc(f.parts, func(p formatPart) bool {
			at, ok := known[strings.ToLower(p.variable)]
			return ok && slices.Contains(places, at)
		})
	}
	if !has(placeMsec, placeISO, placeLocal, placeTime) {
		return fmt.Errorf("%q: no variable says when, want $msec (the most exact), $time_iso8601 or $time_local", f.name)
	}
	if !has(PlaceRequest, PlaceTarget, placeURI) {
		return fmt.Errorf("%q: no variable says what was asked for, want $request, $request_uri or $uri", f.name)
	}
	return nil
}
