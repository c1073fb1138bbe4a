package replay

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"authz/internal/replay/accesslog"
	"authz/limits"
)

// A Report is what a replay has found. Its names in JSON are stable; times are RFC 3339 in UTC.
type Report struct {
	Warnings []string    `json:"warnings,omitempty"` // why the report says nothing, or not all, about the limits
	Logs     []LogReport `json:"logs"`
	Requests int64       `json:"requests"`
	From     string      `json:"from"` // the first request's time, and the last one's
	To       string      `json:"to"`

	UnknownAddress int64  `json:"unknown_address"` // requests whose address the log lacks, or that cannot be read
	WholeSeconds   bool   `json:"whole_seconds"`   // of a log no time has a fraction: its requests of a second count as one instant
	LimitReq       []Said `json:"limit_req,omitempty"`

	Policy   PolicyReport  `json:"policy"`
	Against  *PolicyReport `json:"against,omitempty"`
	Compared *Comparison   `json:"compared,omitempty"`

	fromUS, toUS int64 // of pictures: whole seconds around all requests
}

// A LogReport is what was in one log.
type LogReport struct {
	Name     string   `json:"name"`
	Format   string   `json:"format"`
	Lines    int64    `json:"lines"`
	Requests int64    `json:"requests"`
	Late     int64    `json:"late"`              // requests that came too late to be put in their place
	Crowded  int64    `json:"crowded,omitempty"` // requests that were put in order among those alone that memory has room for
	Broken   []Broken `json:"broken"`
}

// Broken is the lines of one kind that are no request.
type Broken struct {
	Kind  string `json:"kind"`
	Lines int64  `json:"lines"`      // 0 if nobody can say how many: of damagedGzip
	First int64  `json:"first_line"` // counted from 1
}

// damagedGzip is the kind of the lines that gzip does not give back: all that follow.
const damagedGzip = "gzip is damaged"

// Said is how often limit_req said something, such as REJECTED; "-" where no zone applied, "other" for what
// it never says.
type Said struct {
	Status   string `json:"status"`
	Requests int64  `json:"requests"`
}

// A PolicyReport is what one set of limits would have answered.
type PolicyReport struct {
	Admitted  int64         `json:"admitted"`
	Limited   int64         `json:"limited"`   // 429
	Blocked   int64         `json:"blocked"`   // 403
	Unmatched int64         `json:"unmatched"` // of the admitted: no rule met them
	Rules     []RuleReport  `json:"rules"`
	Limits    []LimitReport `json:"limits"`
	Lacks     []Lack        `json:"lacks"`
}

// A RuleReport is a deny or allow rule, as "deny.NAME".
type RuleReport struct {
	Rule     string `json:"rule"`
	Requests int64  `json:"requests"`
}

// refuses says whether the rule blocks what it meets.
func (r RuleReport) refuses() bool { return strings.HasPrefix(r.Rule, "deny.") }

// A LimitReport is what one limit would have said.
type LimitReport struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Rate      string `json:"rate"`
	Burst     int64  `json:"burst"`
	Initial   int64  `json:"initial,omitempty"` // what a bucket begins with that was never used, unless its burst; suggestions are for buckets that begin full
	Shadow    bool   `json:"shadow"`

	Requests   int64 `json:"requests"` // that it counted
	Refused    int64 `json:"refused"`
	Share      Share `json:"refused_share"`
	Blocked    int64 `json:"blocked"`             // by missing = "deny"
	Missing    int64 `json:"missing"`             // a part of the key was
	Unlimited  int64 `json:"unlimited"`           // not counted: the rate is "unlimited"
	Overridden int64 `json:"overridden"`          // counted by the numbers of an override
	Scheduled  int64 `json:"scheduled,omitempty"` // counted by the numbers of a schedule

	Keys         int64   `json:"keys"`
	KeysExact    bool    `json:"keys_exact"` // else Keys is an estimate
	FirstRefusal *string `json:"first_refusal"`

	BusiestSecond     *SpanReport `json:"busiest_second"`
	BusiestMinute     *SpanReport `json:"busiest_minute"`
	MostRefusedSecond *SpanReport `json:"most_refused_second"`
	MostRefusedMinute *SpanReport `json:"most_refused_minute"`

	TopRequests []KeyReport `json:"top_requests"`
	TopRefused  []KeyReport `json:"top_refused"`

	Suggestions    []Suggestion `json:"suggestions,omitempty"`
	SuggestionKeys int64        `json:"suggestion_keys,omitempty"` // how many they are made for: all without an override, or a sample

	picture    *series
	suggesting bool
}

// A SpanReport is a second or a minute.
type SpanReport struct {
	From     string `json:"from"`
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused"`
}

// A KeyReport is one key, as it stands in Redis keys: a secret is a digest.
type KeyReport struct {
	Key      string `json:"key"`
	Requests int64  `json:"requests"`
	Refused  int64  `json:"refused"`
	Over     int64  `json:"over"` // so many of the requests may be other keys'; 0: exact
}

// A Comparison is the requests that only one of the policies refuses.
type Comparison struct {
	Newly    Difference        `json:"newly_refused"`
	NoLonger Difference        `json:"no_longer_refused"`
	Limits   []LimitComparison `json:"limits"`
}

// A Difference is those of one direction; a key is "limit.NAME KEY", or the rule that blocks.
type Difference struct {
	Requests int64       `json:"requests"`
	Keys     int64       `json:"keys"`
	Exact    bool        `json:"keys_exact"` // else there are at least so many
	Top      []KeyReport `json:"top"`
}

// A LimitComparison is a limit in both policies; nil where it is not.
type LimitComparison struct {
	Name   string    `json:"name"`
	Before *Refusals `json:"before"`
	After  *Refusals `json:"after"`
}

// Refusals are those of a limit.
type Refusals struct {
	Requests int64 `json:"requests"`
	Refused  int64 `json:"refused"`
}

const topKeys = 10

// report is the end of a run.
func (r *run) report(streams []*stream) (*Report, error) {
	out := &Report{UnknownAddress: r.unknown, From: when(r.firstUS), To: when(r.lastUS),
		fromUS: r.firstUS - r.firstUS%1e6, toUS: r.lastUS - r.lastUS%1e6 + 1e6}
	for _, s := range streams {
		format := "empty"
		if s.format != nil {
			format = s.format.String()
		}
		out.Logs = append(out.Logs, LogReport{s.log.name, format, s.lines, s.requests, s.late, s.crowded, s.brokenLines()})
		out.Requests += s.requests
		out.WholeSeconds = out.WholeSeconds || s.requests > 0 && !s.exact
	}
	if out.Requests == 0 {
		return nil, nothing(streams)
	}
	for _, s := range streams {
		if err := s.nothing(); err != nil && s.log.damaged == nil { // of damage there is a warning
			return nil, err
		}
	}
	for _, w := range [...]word{1, 2, 3, 4, 5, otherWord, noWord} {
		if n := r.said[w]; n > 0 && r.seen[accesslog.PlaceLimitReq] {
			out.LimitReq = append(out.LimitReq, Said{wordNames[w], n})
		}
	}
	for i := range out.Logs {
		if w := out.Logs[i].warning(); w != "" {
			out.Warnings = append(out.Warnings, w)
		}
	}
	if out.UnknownAddress == out.Requests {
		out.Warnings = append(out.Warnings, "no request has an address that can be read, so that limits by ip have a single key; want --format with $remote_addr where the address stands")
	}
	out.Policy = r.policies[0].report(r)
	if r.compared != nil {
		against := r.policies[1].report(r)
		out.Against = &against
		out.Compared = r.compared.report(&against, &out.Policy)
	}
	return out, nil
}

func (s *stream) brokenLines() []Broken {
	broken := []Broken{}
	for i, f := range s.flawed {
		if f.lines > 0 {
			broken = append(broken, Broken{accesslog.Flaw(i).String(), f.lines, f.first})
		}
	}
	if s.log.damaged != nil {
		broken = append(broken, Broken{damagedGzip, 0, s.lines + 1})
	}
	return broken
}

func (p *policy) report(r *run) PolicyReport {
	out := PolicyReport{Admitted: p.admitted, Limited: p.limited, Blocked: p.blocked, Unmatched: p.unmatched,
		Rules: []RuleReport{}, Lacks: r.lacks(p.set.Reads())}
	for _, name := range p.set.Rules(limits.Deny) {
		out.Rules = append(out.Rules, RuleReport{"deny." + name, p.deny[name]})
	}
	for _, name := range p.set.Rules(limits.Allow) {
		out.Rules = append(out.Rules, RuleReport{"allow." + name, p.allow[name]})
	}
	for _, t := range p.limits {
		l := t.report()
		if r.Suggest != nil {
			asked := t.asked()
			l.suggesting, l.SuggestionKeys = true, int64(len(asked))
			l.Suggestions = t.suggestions(asked, r.Suggest, p.set, t.limit.MostCost())
		}
		out.Limits = append(out.Limits, l)
	}
	return out
}

func (t *tally) report() LimitReport {
	t.second.end()
	t.minute.end()
	l := t.limit
	out := LimitReport{Name: l.Name, Algorithm: l.Algorithm.String(), Rate: l.Rate.String(), Burst: l.Rate.Burst, Initial: l.Rate.Initial, Shadow: l.Shadow,
		Requests: t.requests, Refused: t.refused, Share: shareOf(t.refused, t.requests),
		Blocked: t.blocked, Missing: t.missing, Unlimited: t.unlimited, Overridden: t.overridden, Scheduled: t.scheduled,
		BusiestSecond: t.second.busiest.report(), BusiestMinute: t.minute.busiest.report(),
		MostRefusedSecond: t.second.mostRefused.report(), MostRefusedMinute: t.minute.mostRefused.report(),
		TopRequests: t.keys.report(func(r *keyRow) int64 { return r.requests }),
		TopRefused:  t.keys.report(func(r *keyRow) int64 { return r.refused }),
		picture:     &t.series,
	}
	out.Keys, out.KeysExact = t.sample.distinct()
	if t.firstUS > 0 {
		at := when(t.firstUS)
		out.FirstRefusal = &at
	}
	return out
}

func (s Span) report() *SpanReport {
	if s.Requests == 0 {
		return nil
	}
	return &SpanReport{when(s.FromUS), s.Requests, s.Refused}
}

func (t *keyTable) report(count func(*keyRow) int64) []KeyReport {
	top := []KeyReport{}
	for _, row := range t.top(topKeys, count) {
		top = append(top, KeyReport{string(whose([]byte(row.key))), row.requests, row.refused, row.over})
	}
	return top
}

func (c *comparison) report(before, after *PolicyReport) *Comparison {
	out := &Comparison{Newly: c.newly.report(), NoLonger: c.noLonger.report()}
	byName := map[string]*LimitComparison{}
	add := func(l *LimitReport) *LimitComparison {
		if byName[l.Name] == nil {
			byName[l.Name] = &LimitComparison{Name: l.Name}
		}
		return byName[l.Name]
	}
	for i := range before.Limits {
		l := &before.Limits[i]
		add(l).Before = &Refusals{l.Requests, l.Refused}
	}
	for i := range after.Limits {
		l := &after.Limits[i]
		add(l).After = &Refusals{l.Requests, l.Refused}
	}
	for _, l := range byName {
		out.Limits = append(out.Limits, *l)
	}
	slices.SortFunc(out.Limits, func(a, b LimitComparison) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func (d *difference) report() Difference {
	return Difference{d.requests, int64(len(d.keys.rows)), len(d.keys.rows) < mostKeys, d.keys.report(func(r *keyRow) int64 { return r.requests })}
}

// when is a time for people and programs to read; in whole seconds without a fraction.
func when(us int64) string {
	return time.UnixMicro(us).UTC().Format("2006-01-02T15:04:05.999999Z07:00")
}
