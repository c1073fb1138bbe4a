package limits

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// gatherOverrides takes the tables [override.LIMIT."KEY"] out of [override.LIMIT]. KEY may be a
// secret: titles have it only once the limit is known to have no secret in its key.
func (p *parser) gatherOverrides(all *table) {
	for _, key := range slices.Sorted(maps.Keys(all.values)) {
		if _, ok := all.values[key].(map[string]any); !ok {
			all.problem(key, `a KEY is %s, want a table [%s."KEY"] for each`, show(all.values[key]), all.title)
		} else if t, ok := all.sub(key, "", all.title); ok {
			p.overrides = append(p.overrides, t)
		}
	}
}

// readOverrides gives the limits their overrides.
func (p *parser) readOverrides() {
	first := map[string]*table{} // by limit and canonical values
	for _, t := range p.overrides {
		name, key := t.path[1], t.path[2]
		d := t.draft()
		values, ok := t.keyValues(d, key)
		if ok {
			at := name + "\x00" + strings.Join(values, "\x00")
			if other := first[at]; other != nil {
				t.duplicate(other)
			} else {
				first[at] = t
			}
		}
		t.known("rate", "burst")
		if rate := t.otherNumbers(d); ok && rate != nil {
			d.overrides = append(d.overrides, overrideSpec{values, rate})
		}
	}
}

// draft is the limit that an override or a schedule is of; an empty one, which has been reported, if there
// is none.
func (t *table) draft() *draft {
	name := t.path[1]
	if d := t.p.drafts[name]; d != nil {
		return d
	}
	if !t.p.blind {
		t.complain("there is no limit %s, want %s", name, t.p.limitNames(name))
	}
	return &draft{}
}

// limitNames says which limit could have been meant.
func (p *parser) limitNames(got string) string {
	names := slices.Sorted(maps.Keys(p.drafts))
	if near := nearest(got, names); near != "" {
		return near
	}
	if len(names) == 0 || len(names) > 10 {
		return fmt.Sprintf("a table [limit.%s]", got)
	}
	if len(names) == 1 {
		return names[0]
	}
	return "one of the limits " + strings.Join(names, ", ")
}

// otherNumbers reads the numbers of an override or a schedule; what it leaves out is what its limit wrote.
// Nil: wrong.
func (t *table) otherNumbers(d *draft) *Rate {
	if t.absent("rate") && t.absent("burst") {
		t.complain("rate and burst are absent, want one of them")
	}
	if !t.has("rate") && !t.has("burst") {
		return nil
	}
	n := t.numbers(d.algorithm)
	if n.written == nil && t.has("rate") || n.burst == nil && t.has("burst") {
		return nil
	}
	if n.written == nil {
		n.written = d.written
	}
	if n.burst == nil {
		n.burst = d.burst
	}
	n.utcOffsetUS = d.utcOffsetUS
	if d.algorithm == 0 || n.written == nil || n.burst == nil && d.badBurst {
		return nil // the limit has said why
	}
	return t.fit(d, n)
}

// keyValues splits KEY into a canonical value for each part of the limit's key, and gives the table
// its full title.
func (t *table) keyValues(d *draft, key string) ([]string, bool) {
	if !d.keyed {
		return nil, false // the limit has said why
	}
	secret := slices.ContainsFunc(d.key, partSpec.secret)
	shown := strconv.Quote(key)
	if secret && (len(d.key) > 1 || !isDigest(key)) {
		shown = string(appendDigest(nil, []byte(key)))
	}
	t.title += "." + shown
	values := []string{key}
	if len(d.key) != 1 {
		values = strings.Split(key, "|")
	}
	switch {
	case len(d.key) == 0:
		t.complain("key = [] is one bucket for everybody, want no override of it")
		return nil, false
	case len(values) != len(d.key):
		t.complain("its number of values is %d, want %d, joined by \"|\": %s", len(values), len(d.key), joinParts(d.key))
		return nil, false
	}
	for i, part := range d.key {
		var canonical, want string
		if part.kind == partIP {
			canonical, want = t.p.address(values[i])
		} else {
			canonical, want = d.value(part, values[i])
		}
		if want != "" {
			shown := show(values[i])
			if part.secret() {
				shown = "no digest"
			}
			t.complain("the value of %s is %s, want %s", part, shown, want)
			return nil, false
		}
		values[i] = canonical
	}
	return values, true
}

// address makes an address or CIDR canonical, likewise. All clients of a group share a bucket, so an
// address stands for its group, and nothing narrower can have numbers of its own.
func (p *parser) address(s string) (canonical, want string) {
	prefix, err := parsePrefix(s)
	if err != nil {
		return "", err.Error()
	}
	name, group := "ipv4_prefix", p.spec.ipv4Prefix
	if prefix.Addr().Is6() {
		name, group = "ipv6_prefix", p.spec.ipv6Prefix
	}
	if prefix.Bits() > group {
		whole, _ := prefix.Addr().Prefix(group)
		if strings.Contains(s, "/") {
			return "", fmt.Sprintf("%s or a wider one: its clients share a bucket (%s = %d)", whole, name, group)
		}
		prefix = whole
	}
	return string(appendPrefix(nil, prefix)), ""
}

func joinParts(parts []partSpec) string {
	names := make([]string, len(parts))
	for i, part := range parts {
		names[i] = part.String()
	}
	return strings.Join(names, "|")
}

// secret says whether values of the part may be read by nobody.
func (p partSpec) secret() bool {
	switch p.kind {
	case partCookie:
		return true
	case partHeader:
		return p.name == "cookie" || secretName(p.name)
	}
	return p.kind == partQuery && secretName(p.name)
}

const digestPrefix = "sha256:"

// isDigest says whether a secret was written as "sha256:" and 64 hex digits.
func isDigest(s string) bool {
	sum, err := hex.DecodeString(strings.TrimPrefix(s, digestPrefix))
	return err == nil && strings.HasPrefix(s, digestPrefix) && len(sum) == sha256.Size
}

// value makes an override's value of a part but ip canonical. The second result is empty, or what would be
// right.
func (d *draft) value(part partSpec, s string) (canonical, want string) {
	switch {
	case s == "":
		return "", "a value: an empty one is a missing one"
	case part.kind == partHost:
		host := string(appendHost(nil, []byte(s)))
		if host == "" || !HostIsValid([]byte(s)) || strings.Contains(host, "*") {
			return "", "one host such as api.example.com"
		}
		return host, ""
	case part.kind == partMethod && s != strings.ToUpper(s):
		return "", strconv.Quote(strings.ToUpper(s))
	case part.kind == partPath:
		canonical, err := checkPathPattern(s)
		if err != nil || !slices.Contains(d.match.path, canonical) {
			return "", "one of match.path: " + strings.Join(d.match.path, ", ")
		}
		return canonical, ""
	case part.kind == partPathRaw && s[0] != '/':
		return "", `a path such as "/api/items"`
	case part.secret() && strings.HasPrefix(s, digestPrefix):
		if !isDigest(s) {
			return "", `the secret itself, or "sha256:" and 64 hex digits`
		}
		return strings.ToLower(s), ""
	case part.secret():
		sum := sha256.Sum256([]byte(s))
		return digestPrefix + hex.EncodeToString(sum[:]), ""
	}
	return s, ""
}
