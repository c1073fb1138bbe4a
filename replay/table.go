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
		if len(l.Broken) > 0 {
			fmt.Fprintf(w, "  left out: %s\n", tellFlaws(l.Broken))
		}
		if l.Late > 0 {
			fmt.Fprintf(w, "  %s came too late to be put in order, and counted at the time of those before\n", count(l.Late, "request"))
		}
	}
	fmt.Fprintf(w, "from %s to %s\n", r.From, r.To)
	if r.UnknownAddress > 0 {
		fmt.Fprintf(w, "%s without an address that can be read: ip=unknown\n", count(r.UnknownAddress, "request"))
	}
	if r.WholeSeconds {
		fmt.Fprintln(w, "times are whole seconds: what came in one second counts as one instant, which is harder on buckets and on windows below a second ($msec is exact)")
	}
	if len(r.LimitReq) > 0 {
		var all []string
		for _, s := range r.LimitReq {
			all = append(all, fmt.Sprintf("%s %d (%s)", plain(s.Status), s.Requests, shareOf(s.Requests, r.Requests)))
		}
		fmt.Fprintf(w, "limit_req said: %s\n", strings.Join(all, ", "))
	}
}

// tellFlaws is "6 no request (the first in line 17)".
func tellFlaws(all []Broken) string {
	var texts []string
	for _, b := range all {
		texts = append(texts, fmt.Sprintf("%d %s (the first in line %d)", b.Lines, b.Kind, b.First))
	}
	return strings.Join(texts, ", ")
}

func (p *PolicyReport) tell(w io.Writer) {
	fmt.Fprintf(w, "\nadmitted %d, of which no rule meets %d; limited (429) %d; blocked (403) %d\n", p.Admitted, p.Unmatched, p.Limited, p.Blocked)
	for _, l := range p.Lacks {
		fmt.Fprintf(w, "%s: the log has no %s, %s\n", l.Rule, l.What, l.Means)
	}
	fmt.Fprintln(w)
	t := newTable(w, "rule", ">requests", ">refused", ">share", ">keys", "first refusal")
	for _, r := range p.Rules {
		refused, share := "", ""
		if strings.HasPrefix(r.Rule, "deny.") {
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
	fmt.Fprintf(w, "\nlimit.%s: %s, %s", l.Name, l.Algorithm, l.Rate)
	if l.Burst > 0 {
		fmt.Fprintf(w, ", burst %d", l.Burst)
	}
	if l.Initial > 0 {
		fmt.Fprintf(w, ", of which a new key has %d", l.Initial)
	}
	if l.Shadow {
		fmt.Fprint(w, ", shadow")
	}
	fmt.Fprintln(w)
	for _, c := range [...]struct {
		n    int64
		what string
	}{{l.Missing, "lacked a part of the key"}, {l.Blocked, "blocked for that"}, {l.Unlimited, "unlimited, and not counted"},
		{l.Overridden, "by the numbers of an override"}, {l.Scheduled, "by the numbers of a schedule"}} {
		if c.n > 0 {
			fmt.Fprintf(w, "  %s %s\n", count(c.n, "request"), c.what)
		}
	}
	if l.Requests == 0 {
		fmt.Fprintln(w, "  counted no request")
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
	of := fmt.Sprintf("  smallest that would do, of %s", count(l.SuggestionKeys, "key"))
	if !l.KeysExact {
		of += " taken at random"
	}
	if l.Initial > 0 {
		of += ", for buckets that begin full"
	}
	t := newTable(w, of, "with the headroom", "", ">refused keys", "")
	for _, s := range l.Suggestions {
		numbers := fmt.Sprintf("rate = %q", s.Rate)
		if s.Burst != nil {
			numbers += fmt.Sprintf(", burst = %d", *s.Burst)
		}
		t.row(fmt.Sprintf("  %s %s %d", s.Algorithm, s.Number, s.Smallest), numbers, "", fmt.Sprint(s.Refused), s.Not)
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
	keys := count(d.Keys, "key")
	if !d.Exact {
		keys += " or more"
	}
	fmt.Fprintf(w, "\n%s: %s of %s\n", what, count(d.Requests, "request"), keys)
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

// count is "1 line" or "2 lines".
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
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
