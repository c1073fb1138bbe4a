package limits

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

const maxHoldUS = 900000 // the snippet's read timeout is 1 s

var defaultKeys = []string{"on_error", "replicas", "hold_max", "ipv4_prefix", "ipv6_prefix"}

// readDefaults reads [defaults], which may stand in one file.
func (p *parser) readDefaults() {
	p.spec.ipv4Prefix, p.spec.ipv6Prefix, p.spec.replicas, p.spec.holdMaxUS = 32, 64, 1, 400000
	for i, t := range slices.Backward(p.defaults) { // the first has the last word
		if i > 0 {
			t.duplicate(p.defaults[0])
		}
		t.known(defaultKeys...)
		p.onError = t.onError(OnErrorLocal)
		if n, ok := t.whole("replicas", 1, maxCount); ok {
			p.spec.replicas = n
		}
		if n, ok := t.whole("ipv4_prefix", 1, 32); ok {
			p.spec.ipv4Prefix = int(n)
		}
		if n, ok := t.whole("ipv6_prefix", 1, 128); ok {
			p.spec.ipv6Prefix = int(n)
		}
		if t.has("hold_max") {
			p.spec.holdMaxUS = t.holdMax()
		}
	}
}

// holdMax reads a duration. A wrong one counts as the longest, so that no hold is blamed for it.
func (t *table) holdMax() int64 {
	s, ok := t.text("hold_max", `a duration such as "400ms"`)
	if !ok {
		return maxHoldUS
	}
	us, ok := parseSpan(s)
	switch {
	case !ok || !strings.ContainsAny(s, "0123456789"):
		t.wrong("hold_max", `a duration such as "400ms"`)
	case us < 1000 || us > maxHoldUS:
		t.wrong("hold_max", `"1ms" to "900ms"`)
	default:
		return us
	}
	return maxHoldUS
}

func (t *table) onError(otherwise OnError) OnError {
	if i, ok := t.word("on_error", onErrors[:]...); ok {
		return OnError(i)
	}
	return otherwise
}

// duplicate reports that two tables have one name, at the later one.
func (t *table) duplicate(other *table) {
	line := other.file.line(other.path)
	if other.file == t.file && line > t.file.line(t.path) {
		other.duplicate(t)
		return
	}
	own := t.file.line(t.path)
	t.p.report(t.file.order, own, fmt.Sprintf("%s:%d: %s is there twice, want it once; the first is at %s:%d",
		t.file.name, own, t.title, other.file.name, line))
}

// A draft is a limit that may still have errors, and what its overrides and schedules need of it.
type draft struct {
	limitSpec
	numbers
	keyed    bool // its key is right, so that overrides can be held against it
	badBurst bool // its burst is wrong, and nothing can inherit it
	initial  *big.Rat
}

// mostCost is what a request can cost.
func (d *draft) mostCost() int64 { return max(d.cost, d.costMax) }

// readRules reads [limit.NAME], [allow.NAME] and [deny.NAME].
func (p *parser) readRules() {
	first := map[string]*table{}
	for _, t := range p.rules {
		if other := first[t.title]; other != nil {
			t.duplicate(other)
		} else {
			first[t.title] = t
		}
		switch name := t.path[1]; t.path[0] {
		case "limit":
			p.drafts[name] = t.limit(name)
		case "allow":
			p.spec.allow = append(p.spec.allow, t.rule(name))
		case "deny":
			p.spec.deny = append(p.spec.deny, t.rule(name))
		}
	}
}

func (t *table) rule(name string) ruleSpec {
	t.known("match", "unless")
	return ruleSpec{name, t.cond("match"), t.cond("unless")}
}

// sort puts the rules into the order of their names.
func (p *parser) sort() {
	byName := func(a, b ruleSpec) int { return cmp.Compare(a.name, b.name) }
	slices.SortFunc(p.spec.allow, byName)
	slices.SortFunc(p.spec.deny, byName)
	for _, d := range p.drafts {
		p.spec.limits = append(p.spec.limits, d.limitSpec)
	}
	slices.SortFunc(p.spec.limits, func(a, b limitSpec) int { return cmp.Compare(a.name, b.name) })
}

func (t *table) limit(name string) *draft {
	t.known("key", "algorithm", "rate", "match", "unless", "missing", "burst", "initial", "cost", "cost_max",
		"utc_offset", "mode", "on_error")
	d := &draft{}
	d.ruleSpec = ruleSpec{name, t.cond("match"), t.cond("unless")}
	d.algorithm = t.algorithm()
	d.onError = t.onError(t.p.onError)
	mode, _ := t.word("mode", "enforce", "shadow")
	d.shadow = mode == 1
	d.key, d.keyed = t.key()
	d.missing = t.missing(d.key)
	d.numbers = t.numbers(d.algorithm)
	if t.absent("rate") {
		t.complain(`rate is absent, want rate = %s`, wantRate)
	}
	t.cost(d)
	d.utcOffsetUS = t.utcOffset(d.algorithm)
	d.badBurst = d.burst == nil && t.has("burst")
	d.initial = t.initial(d.algorithm)
	if d.algorithm == 0 || d.written == nil || d.badBurst {
		return d // which has been reported
	}
	d.rate = t.fit(d, d.numbers)
	return d
}

func (t *table) algorithm() Algorithm {
	names := make([]string, 0, len(Algorithms))
	for _, a := range Algorithms {
		names = append(names, a.String())
	}
	if t.absent("algorithm") {
		t.complain("algorithm is absent, want algorithm = one of %s", strings.Join(names, ", "))
	}
	i, ok := t.word("algorithm", names...)
	if !ok {
		return 0
	}
	return Algorithms[i]
}

// cost reads cost and cost_max.
func (t *table) cost(d *draft) {
	most := int64(maxCount)
	if d.algorithm == SlidingWindow {
		most = slidingWindowMaxCost
	}
	d.cost = 1
	text, isText := t.values["cost"].(string)
	if !isText {
		if n, ok := t.values["cost"].(int64); ok && 1 <= n && n <= most {
			d.cost = n
		} else if t.has("cost") {
			t.wrong("cost", `%s, or "header:NAME"`, span(1, most))
		}
		if t.has("cost_max") {
			t.wrong("cost_max", `none: it goes with cost = "header:NAME"`)
		}
		return
	}
	d.costMax, _ = t.whole("cost_max", 1, most)
	name, ok := strings.CutPrefix(text, "header:")
	if !ok || !isHTTPName(name) {
		t.wrong("cost", `%s, or "header:NAME"`, span(1, most))
		return
	}
	d.cost, d.costHeader = 0, strings.ToLower(name)
	if t.absent("cost_max") {
		t.complain(`cost_max is absent, want cost_max = %s: what a bad or missing %s costs`, span(1, most), name)
	}
}

const wantOffset = `"+HH:MM" or "-HH:MM" such as "+08:00"`

// utcOffset reads how far east of UTC a day begins, in microseconds.
func (t *table) utcOffset(a Algorithm) int64 {
	s, ok := t.text("utc_offset", wantOffset)
	if !ok {
		return 0
	}
	if a != FixedWindow && a != 0 {
		t.wrong("utc_offset", "none: only fixed_window has one, this is a %s", a)
		return 0
	}
	if len(s) != 6 || s[3] != ':' || (s[0] != '+' && s[0] != '-') {
		t.wrong("utc_offset", wantOffset)
		return 0
	}
	h, ok := digits(s[1:3])
	m, ok2 := digits(s[4:6])
	if !ok || !ok2 || m > 59 || h*60+m > 14*60 {
		t.wrong("utc_offset", `"-14:00" to "+14:00", whole minutes`)
		return 0
	}
	us := (h*60 + m) * 60 * 1000000
	if s[0] == '-' {
		return -us
	}
	return us
}

// wantParts is "ip, host, ..., query:NAME".
var wantParts = func() string {
	list := slices.Clone(partNames[partIP:])
	for i, name := range list {
		list[i] = withName(name)
	}
	return strings.Join(list, ", ")
}()

func withName(part string) string {
	if strings.HasSuffix(part, ":") {
		part += "NAME"
	}
	return part
}

// key reads the parts of a key; false: something in it is wrong.
func (t *table) key() ([]partSpec, bool) {
	if t.absent("key") {
		t.complain(`key is absent, want a list such as ["ip"], of %s; [] is one bucket for everybody`, wantParts)
	}
	values, ok := t.values["key"].([]any)
	if !ok && t.has("key") {
		t.wrong("key", `a list such as ["ip"], of %s`, wantParts)
	}
	var parts []partSpec
	for _, value := range values {
		s, _ := value.(string)
		part, want := parsePart(s)
		if want != "" {
			t.wrongValue("key", value, "%s", want)
			ok = false
			continue
		}
		if slices.Contains(parts, part) {
			t.wrongValue("key", value, "each part once")
			ok = false
		}
		if part.kind == partPath && !t.matchesPath() {
			t.wrongValue("key", value, `path:raw, or match.path: "path" is the pattern of match.path that matched`)
			ok = false
		}
		parts = append(parts, part)
	}
	return parts, ok
}

func (t *table) matchesPath() bool {
	match, ok := t.values["match"].(map[string]any)
	_, has := match["path"]
	return ok && has
}

// parsePart reads a part of a key. The second result is empty, or what would be right.
func parsePart(s string) (partSpec, string) {
	for kind := partIP; kind <= partQuery; kind++ {
		name, ok := strings.CutPrefix(s, partNames[kind])
		if !ok || kind < partHeader && name != "" {
			continue
		}
		var err error
		switch kind {
		case partHeader:
			name, err = checkHeaderName(name)
		case partCookie:
			name, err = checkCookieName(name)
		case partQuery:
			name, err = checkQueryName(name)
		}
		if err != nil {
			return partSpec{}, fmt.Sprintf("%s and %s", partNames[kind], err)
		}
		return partSpec{kind, name}, ""
	}
	want := "one of " + wantParts
	if head, _, ok := strings.Cut(s, ":"); ok {
		s = head + ":"
	}
	if near := nearest(s, partNames[partIP:]); near != "" {
		want += "; did you mean " + withName(near) + "?"
	}
	return partSpec{}, want
}

// missing reads what becomes of requests without a part of the key. Headers, cookies, parameters and
// the zone can be absent.
func (t *table) missing(key []partSpec) missing {
	words := missings[missingSkip:]
	if i, ok := t.word("missing", words...); ok {
		return missingSkip + missing(i)
	}
	for _, part := range key {
		if part.kind >= partZone && t.absent("missing") {
			t.problem("key", `missing is absent, and %s can be, want missing = one of %s`,
				part, strings.Join(words, ", "))
			break
		}
	}
	return missingNever
}
