package replay

import (
	"authz/internal/replay/accesslog"
	"authz/limits"
)

// A batch is what has been made of a chunk of a log. It needs the text no more.
type batch struct {
	lines int64

	requests []entry   // in the order of their lines
	outcomes []outcome // of each request, one a policy
	checks   []limits.Check
	passed   []*limits.Limit // of the outcomes
	keys     []byte          // of the checks
	bytes    int             // of all these, about
	left     int             // requests that are neither decided nor left out
	before   int64           // lines of the log

	flawed [accesslog.Flaws]flawed
	exact  bool   // some time has a fraction of a second
	seen   []bool // fields by place
}

// An entry is what is known of a request beside the outcomes.
type entry struct {
	timeUS   int64
	line     int64 // of the batch, from 1
	limitReq word
	unknown  bool // its address cannot be read
}

// An outcome is what the rules of a policy say of a request.
type outcome struct {
	verdict limits.Verdict
	rule    string        // of allow or deny
	limit   *limits.Limit // whose missing part denies
	checks  []limits.Check

	missing, unlimited []*limits.Limit // that lack a part of the key, or count nothing
}

// flawed counts lines.
type flawed struct{ lines, first int64 }

func newBatch(n *accesslog.FieldNames) *batch { return &batch{seen: make([]bool, n.Size())} }

// A matcher parses batches and matches their requests.
type matcher struct {
	reader   *accesslog.AttrsReader
	policies []*policy
	match    []limits.Match
}

func newMatcher(n *accesslog.FieldNames, policies []*policy) *matcher {
	return &matcher{reader: accesslog.NewAttrsReader(n, setsOf(policies)), policies: policies, match: make([]limits.Match, len(policies))}
}

// fill makes requests of whole lines that have this format.
func (m *matcher) fill(b *batch, text []byte, format *accesslog.Bound) {
	b.lines, b.requests, b.outcomes, b.checks, b.passed, b.keys = 0, b.requests[:0], b.outcomes[:0], b.checks[:0], b.passed[:0], b.keys[:0]
	b.flawed, b.exact = [accesslog.Flaws]flawed{}, false
	for rest := text; len(rest) > 0; {
		var line []byte
		line, rest = accesslog.CutLine(rest)
		b.lines++
		timeUS, flaw := m.reader.Read(line, format)
		if flaw != accesslog.Flawless {
			f := &b.flawed[flaw]
			if f.lines++; f.first == 0 {
				f.first = b.lines
			}
			continue
		}
		b.requests = append(b.requests, entry{timeUS, b.lines, wordOf(m.reader.Fields.Values[accesslog.PlaceLimitReq]), !m.reader.Attrs.IP.IsValid()})
		b.exact = b.exact || timeUS%1e6 != 0
		for i, p := range m.policies {
			p.set.Match(m.reader.AttrsOf(i), &m.match[i])
			b.take(&m.match[i])
		}
	}
	b.left = len(b.requests)
	b.bytes = 96*(len(b.requests)+len(b.outcomes)) + 56*len(b.checks) + 8*len(b.passed) + len(b.keys)
	copy(b.seen, m.reader.Fields.Seen)
}

// take keeps what a match has found: its memory is used again.
func (b *batch) take(m *limits.Match) {
	first := len(b.checks)
	for _, c := range m.Checks {
		start := len(b.keys)
		b.keys = append(b.keys, c.Key...)
		c.Key = b.keys[start:len(b.keys):len(b.keys)]
		b.checks = append(b.checks, c)
	}
	b.outcomes = append(b.outcomes, outcome{m.Verdict, m.Rule, m.Limit, b.checks[first:len(b.checks):len(b.checks)], b.pass(m.Missing), b.pass(m.Unlimited)})
}

func (b *batch) pass(all []*limits.Limit) []*limits.Limit {
	first := len(b.passed)
	b.passed = append(b.passed, all...)
	return b.passed[first:len(b.passed):len(b.passed)]
}
