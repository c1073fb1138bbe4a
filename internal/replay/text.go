package replay

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the report for people: aligned text, lines of any length.
func (r *Report) WriteText(w io.Writer) error {
	var b bytes.Buffer
	for _, text := range r.Warnings {
		fmt.Fprintf(&b, "WARNING: %s\n", text)
	}
	r.tellLogs(&b)
	r.Policy.tell(&b)
	if r.Compared != nil {
		r.Compared.tell(&b, r.Against)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) tellLogs(w io.Writer) {
	for _, l := range r.Logs {
		fmt.Fprintf(w, "%s: %s, %s in the format %s\n", plain(l.Name), count(l.Lines, "line"), count(l.Requests, "request"), plain(l.Format))
		tellNotes(w, "  ", l.notes())
	}
	fmt.Fprintf(w, "from %s to %s\n", r.From, r.To)
	tellNotes(w, "", r.notes())
}

func tellNotes(w io.Writer, indent string, notes []string) {
	for _, n := range notes {
		fmt.Fprintln(w, indent+n)
	}
}

func (p *PolicyReport) tell(w io.Writer) {
	fmt.Fprintf(w, "\nadmitted %d, of which no rule meets %d; limited (429) %d; blocked (403) %d\n", p.Admitted, p.Unmatched, p.Limited, p.Blocked)
	tellNotes(w, "", p.notes())
	fmt.Fprintln(w)
	t := newTable(w, "rule", ">requests", ">refused", ">share", ">keys", "first refusal")
	for _, r := range p.Rules {
		refused, share := "", ""
		if r.refuses() {
			refused, share = fmt.Sprint(r.Requests), shareOf(r.Requests, r.Requests).String()
		}
		t.row(r.Rule, fmt.Sprint(r.Requests), refused, share, "", "")
	}
	for i := range p.Limits {
		l := &p.Limits[i]
		first := ""
		if l.FirstRefusal != nil {
			first = *l.FirstRefusal
		}
		t.row("limit."+l.Name, fmt.Sprint(l.Requests), fmt.Sprint(l.Refused), l.Share.String(), about(l.Keys, l.KeysExact), first)
	}
	t.end()
	for i := range p.Limits {
		p.Limits[i].tell(w)
	}
}

// about marks an estimate.
func about(n int64, exact bool) string {
	if exact {
		return fmt.Sprint(n)
	}
	return fmt.Sprint("about ", n)
}

func (l *LimitReport) tell(w io.Writer) {
	fmt.Fprintln(w, "\n"+l.title())
	tellNotes(w, "  ", l.notes())
	if l.Requests == 0 {
		return
	}
	t := newTable(w, "", "", ">requests", ">refused")
	for _, s := range [...]struct {
		what string
		span *SpanReport
	}{{"busiest second", l.BusiestSecond}, {"busiest minute", l.BusiestMinute},
		{"most refused in a second", l.MostRefusedSecond}, {"most refused in a minute", l.MostRefusedMinute}} {
		if s.span != nil {
			t.row("  "+s.what, s.span.From, fmt.Sprint(s.span.Requests), fmt.Sprint(s.span.Refused))
		}
	}
	t.end()
	tellKeys(w, "busiest keys", l.TopRequests)
	tellKeys(w, "most refused keys", l.TopRefused)
	l.tellSuggestions(w)
}

func tellKeys(w io.Writer, title string, keys []KeyReport) {
	if len(keys) == 0 {
		return
	}
	t := newTable(w, "  "+title, ">requests", ">refused", "")
	for _, k := range keys {
		over := ""
		if k.Over > 0 {
			over = fmt.Sprintf("of which %d at most are other keys'", k.Over)
		}
		t.row("  "+plain(k.Key), fmt.Sprint(k.Requests), fmt.Sprint(k.Refused), over)
	}
	t.end()
}

func (l *LimitReport) tellSuggestions(w io.Writer) {
	if len(l.Suggestions) == 0 {
		return
	}
	t := newTable(w, "  "+l.suggestionTitle(), "with the headroom", "", ">refused keys", "")
	for _, s := range l.Suggestions {
		t.row("  "+s.what(), s.numbers(), "", s.refused(), s.Not)
	}
	t.end()
}

func (c *Comparison) tell(w io.Writer, against *PolicyReport) {
	fmt.Fprintf(w, "\nagainst: admitted %d, limited %d, blocked %d\n\n", against.Admitted, against.Limited, against.Blocked)
	t := newTable(w, "limit", ">requests before", ">after", ">refused before", ">after")
	for _, l := range c.Limits {
		row := []string{"limit." + l.Name}
		for _, of := range [...]func(*Refusals) int64{func(r *Refusals) int64 { return r.Requests }, func(r *Refusals) int64 { return r.Refused }} {
			for _, r := range [...]*Refusals{l.Before, l.After} {
				if r == nil {
					row = append(row, "-")
				} else {
					row = append(row, fmt.Sprint(of(r)))
				}
			}
		}
		t.row(row...)
	}
	t.end()
	c.Newly.tell(w, "newly refused")
	c.NoLonger.tell(w, "no longer refused")
}

func (d *Difference) tell(w io.Writer, what string) {
	fmt.Fprintln(w, "\n"+d.title(what))
	if len(d.Top) == 0 {
		return
	}
	t := newTable(w, "  refused by, key", ">requests", "")
	for _, k := range d.Top {
		over := ""
		if k.Over > 0 {
			over = fmt.Sprintf("of which %d at most are other keys'", k.Over)
		}
		t.row("  "+plain(k.Key), fmt.Sprint(k.Requests), over)
	}
	t.end()
}

// plain is text from outside that cannot move a terminal's cursor or colour it.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, text)
}
