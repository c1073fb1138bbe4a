package replay

import (
	"authz/limits"
)

// A batch is what has been made of a chunk of a log. It needs the text no more.
type batch struct {
	lines int64

	times    []int64   // of each request, in the order of their lines
	outcomes []outcome // of each request, one a policy
	checks   []limits.Check
	keys     []byte // of the checks
	bytes    int    // of all these, about
	left     int    // requests that are not decided yet

	flawed  [flaws]flawed
	unknown int64                // requests without a readable address
	exact   bool                 // some time has a fraction of a second
	seen    []bool               // fields by place
	counts  [][]counts           // by policy, by limit
	said    [otherWord + 1]int64 // what limit_req did
}

// An outcome is what the rules of a policy say of a request.
type outcome struct {
	verdict limits.Verdict
	rule    string        // of allow or deny
	limit   *limits.Limit // whose missing part denies
	checks  []limits.Check
}

// flawed counts lines.
type flawed struct{ lines, first int64 }

// counts are those of a limit that do not depend on the order of requests.
type counts struct{ missing, unlimited int64 }

func newBatch(n *fieldNames, policies []*policy) *batch {
	b := &batch{seen: make([]bool, n.size())}
	for _, p := range policies {
		b.counts = append(b.counts, make([]counts, len(p.limits)))
	}
	return b
}

// A matcher parses batches and matches their requests.
type matcher struct {
	reader   *attrsReader
	policies []*policy
	match    []limits.Match
}

func newMatcher(n *fieldNames, policies []*policy) *matcher {
	return &matcher{reader: newAttrsReader(n, policies), policies: policies, match: make([]limits.Match, len(policies))}
}

// fill makes requests of whole lines that have this format.
func (m *matcher) fill(b *batch, text []byte, format *bound) {
	b.lines, b.times, b.outcomes, b.checks, b.keys = 0, b.times[:0], b.outcomes[:0], b.checks[:0], b.keys[:0]
	b.flawed, b.unknown, b.exact = [flaws]flawed{}, 0, false
	b.said = [otherWord + 1]int64{}
	for _, c := range b.counts {
		clear(c)
	}
	for rest := text; len(rest) > 0; {
		var line []byte
		line, rest = cutLine(rest)
		b.lines++
		timeUS, flaw := m.reader.read(line, format)
		if flaw != flawless {
			f := &b.flawed[flaw]
			if f.lines++; f.first == 0 {
				f.first = b.lines
			}
			continue
		}
		b.times = append(b.times, timeUS)
		b.exact = b.exact || timeUS%1e6 != 0
		if !m.reader.attrs.IP.IsValid() {
			b.unknown++
		}
		if said := m.reader.fields.values[placeLimitReq]; said != nil {
			b.said[wordOf(said)]++
		}
		for i, p := range m.policies {
			p.set.Match(m.reader.attrsOf(i), &m.match[i])
			b.take(&m.match[i], b.counts[i])
		}
	}
	b.left = len(b.times)
	b.bytes = 64*(2*len(b.times)+len(b.outcomes)+len(b.checks)) + len(b.keys)
	copy(b.seen, m.reader.fields.seen)
}

// take keeps what a match has found: its memory is used again.
func (b *batch) take(m *limits.Match, counts []counts) {
	for _, l := range m.Missing {
		counts[l.Index].missing++
	}
	for _, l := range m.Unlimited {
		counts[l.Index].unlimited++
	}
	first := len(b.checks)
	for _, c := range m.Checks {
		start := len(b.keys)
		b.keys = append(b.keys, c.Key...)
		c.Key = b.keys[start:len(b.keys):len(b.keys)]
		b.checks = append(b.checks, c)
	}
	b.outcomes = append(b.outcomes, outcome{m.Verdict, m.Rule, m.Limit, b.checks[first:len(b.checks):len(b.checks)]})
}
