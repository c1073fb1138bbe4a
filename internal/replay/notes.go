package replay

import (
	"fmt"
	"strings"

	"authz/internal/replay/accesslog"
)

// few lines that come too late are what any log may have.
const few = 10

// warning is that a log was not read to its end, or not in its order, since its times go backwards in most lines, or in more than a few and a twentieth.
func (l LogReport) warning() string {
	astray, all := l.Late, l.Requests
	for _, b := range l.Broken {
		if b.Kind == damagedGzip {
			return fmt.Sprintf("%s is damaged, and this report ends before its end: nothing from line %d on was read; want a gzip that gzip -t finds whole",
				plain(l.Name), b.First)
		}
		if b.Kind == accesslog.FromFuture.String() {
			astray, all = astray+b.Lines, all+b.Lines
		}
	}
	if 2*astray <= all && (astray <= few || 20*astray <= all) {
		return ""
	}
	return fmt.Sprintf("%s is not in the order of time, and this report is wrong: %s of %d come after later ones; want the oldest line first: tac turns a log around that has the newest first, sort puts others in order, and logs that are given as files of their own are merged by their times",
		plain(l.Name), count(astray, "request"), all)
}

func (l LogReport) notes() (all []string) {
	if len(l.Broken) > 0 {
		all = append(all, "left out: "+tellFlaws(l.Broken))
	}
	if l.Late > 0 {
		all = append(all, count(l.Late, "request")+" came too late to be put in order, and counted at the time of those before")
	}
	if l.Crowded > 0 {
		all = append(all, fmt.Sprintf("%s put in order among %d MiB of them alone: more came in the time that --reorder gives to late ones", count(l.Crowded, "request"), mostKept>>20))
	}
	return all
}

func (r *Report) notes() (all []string) {
	if r.UnknownAddress > 0 {
		all = append(all, count(r.UnknownAddress, "request")+" without an address that can be read: ip=unknown")
	}
	if r.WholeSeconds {
		all = append(all, "times are whole seconds: what came in one second counts as one instant, which is harder on buckets and on windows below a second ($msec is exact)")
	}
	if len(r.LimitReq) > 0 {
		var said []string
		for _, s := range r.LimitReq {
			said = append(said, fmt.Sprintf("%s %d (%s)", plain(s.Status), s.Requests, shareOf(s.Requests, r.Requests)))
		}
		all = append(all, "limit_req said: "+strings.Join(said, ", "))
	}
	return all
}

func (p PolicyReport) notes() (all []string) {
	for _, l := range p.Lacks {
		all = append(all, fmt.Sprintf("%s: the log has no %s, %s", l.Rule, l.What, l.Means))
	}
	return all
}

func (l LimitReport) notes() (all []string) {
	for _, c := range [...]struct {
		n    int64
		what string
	}{{l.Missing, "lacked a part of the key"}, {l.Blocked, "blocked for that"}, {l.Unlimited, "unlimited, and not counted"},
		{l.Overridden, "by the numbers of an override"}, {l.Scheduled, "by the numbers of a schedule"}} {
		if c.n > 0 {
			all = append(all, fmt.Sprintf("%s %s", count(c.n, "request"), c.what))
		}
	}
	if l.Requests == 0 {
		all = append(all, "counted no request")
	}
	if l.suggesting && l.Overridden+l.Scheduled > 0 {
		text := "only the limit's own numbers are suggested: what an override or a schedule decided has no say"
		if len(l.Suggestions) == 0 {
			text += ", and nothing is left"
		}
		all = append(all, text)
	}
	return all
}

// title is "limit.login: token_bucket, 5/m, burst 5".
func (l LimitReport) title() string {
	text := fmt.Sprintf("limit.%s: %s, %s", l.Name, l.Algorithm, l.Rate)
	if l.Burst > 0 {
		text += fmt.Sprintf(", burst %d", l.Burst)
	}
	if l.Initial > 0 {
		text += fmt.Sprintf(", of which a new key has %d", l.Initial)
	}
	if l.Shadow {
		text += ", shadow"
	}
	return text
}

// suggestionTitle is what the suggestions are made for.
func (l LimitReport) suggestionTitle() string {
	text := "smallest that would do, of " + count(l.SuggestionKeys, "key")
	if !l.KeysExact {
		text += " taken at random"
	}
	if l.Initial > 0 {
		text += ", for buckets that begin full"
	}
	return text
}

// title is "newly refused: 3 requests of 2 keys".
func (d Difference) title(what string) string {
	keys := count(d.Keys, "key")
	if !d.Exact {
		keys += " or more"
	}
	return fmt.Sprintf("%s: %s of %s", what, count(d.Requests, "request"), keys)
}

// tellFlaws is "6 no request (the first in line 17), gzip is damaged, from line 80 on".
func tellFlaws(all []Broken) string {
	var texts []string
	for _, b := range all {
		if b.Kind == damagedGzip {
			texts = append(texts, fmt.Sprintf("%s, from line %d on", b.Kind, b.First))
			continue
		}
		texts = append(texts, fmt.Sprintf("%d %s (the first in line %d)", b.Lines, b.Kind, b.First))
	}
	return strings.Join(texts, ", ")
}

// count is "1 line" or "2 lines".
func count(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
