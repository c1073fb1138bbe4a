package openresty

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
)

// dice throws limits files and requests that have to do with them.
type dice struct{ *rand.Rand }

func (r dice) one(of ...string) string { return of[r.IntN(len(of))] }

// some is up to most of them, each once.
func (r dice) some(most int, of []string) []string {
	var list []string
	for range 1 + r.IntN(most) {
		if s := r.one(of...); !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

func (r dice) in(chance int) bool { return r.IntN(chance) == 0 }

var (
	diceSegments = []string{"login", "api", "v1", "items", "7", ".env", "a b", "ä", "LOGIN", "a%2Fb", "...", "a*b", "%", "x", "aab"}
	diceGlobs    = []string{"*", "**", "**", "lo*", "*in", "a*b", "*t*m*", "v*", "l*g*n", "*a*a*b*", "*.*", "x*x", "*x*x", "*a*ab"}
	diceLabels   = []string{"api", "www", "example", "com", "org", "x", "x1", "-", "1"}
	diceMethods  = []string{"GET", "POST", "HEAD", "PUT", "PURGE"}
	diceZones    = []string{"a", "b", "login zone", "ä|=%", "z*"}
	diceHeaders  = []string{"X-API-Key", "x-plan", "X-Cost", "Cookie", "User-Agent", "authorization"}
	diceCookies  = []string{"session", "lang", "a", "Session", "x|y"}
	diceQueries  = []string{"q", "page", "api_key", "a b", "ä", "token"}
	diceValues   = []string{"k1", "k2", "gold", "silver", "1", "5", "a b", "ä", "a|b", "a=b", "{x}", "k1, k2", "*", "gold*"}
	dicePrefixes = []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "10.1.2.0/25", "0.0.0.0/0", "192.0.2.0/31", "203.0.113.9",
		"2001:db8::/32", "2001:db8:1:2::/64", "2001:db8:1:2::9", "2001:db8:1:2:ff00::/72", "::/0", "::1", "fe80::/10", "::ffff:10.9.0.0/112"}
)

// prefixOf is a prefix as limits read it: an IPv4 address in IPv6 is an IPv4 address.
func prefixOf(text string) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		addr := netip.MustParseAddr(text)
		p = netip.PrefixFrom(addr, addr.BitLen())
	}
	if p.Addr().Is4In6() {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// pathPatterns are alike, so that a path may meet several.
func (r dice) pathPatterns() (list []string) {
	var base []string
	for range r.IntN(5) {
		base = append(base, r.one(diceSegments[r.IntN(len(diceSegments)):]...))
	}
	for range 1 + r.IntN(4) {
		var b strings.Builder
		for _, s := range base {
			if r.in(3) {
				s = r.one(diceGlobs...)
			}
			b.WriteString("/" + strings.NewReplacer("%", "%25", " ", "%20").Replace(s))
		}
		if b.Len() == 0 || r.in(8) {
			b.WriteByte('/')
		}
		list = append(list, b.String())
	}
	return list
}

func (r dice) hostPattern() string {
	labels := r.some(3, diceLabels)
	if r.in(2) {
		labels[0] = r.one("*", "**", "a*", "*p*")
	}
	return strings.Join(labels, ".")
}

func (r dice) textPatterns(of []string) []string {
	list := r.some(3, of)
	for i := range list {
		if r.in(4) {
			list[i] = r.one("*", "g*", "*1", "*a*b*", "k*", "1*1", "*5*5")
		}
		list[i] = strings.ReplaceAll(list[i], "**", "*")
	}
	return list
}

// condition is a match or unless table with `things` of the things that it can name.
func (r dice) condition(paths []string, things int) string {
	var all []string
	names := func(kind string, of, values []string) string {
		var pairs []string
		for _, name := range r.some(2, of) {
			pairs = append(pairs, fmt.Sprintf("%q = %s", name, quoteAll(r.textPatterns(values))))
		}
		return fmt.Sprintf("%s = { %s }", kind, strings.Join(pairs, ", "))
	}
	for _, kind := range r.Perm(7)[:things] {
		switch kind {
		case 0:
			all = append(all, fmt.Sprintf("host = %s", quoteAll([]string{r.hostPattern(), r.hostPattern()})))
		case 1:
			all = append(all, "method = "+quoteAll(r.some(3, diceMethods)))
		case 2:
			all = append(all, "zone = "+quoteAll(r.textPatterns(diceZones)))
		case 3:
			all = append(all, "ip = "+quoteAll(r.some(3, dicePrefixes)))
		case 4:
			all = append(all, names("header", diceHeaders, diceValues))
		case 5:
			all = append(all, names("cookie", diceCookies[:3], diceValues))
		case 6:
			all = append(all, names("query", diceQueries, diceValues))
		}
	}
	if paths != nil {
		all = append(all, "path = "+quoteAll(paths))
	}
	return "{ " + strings.Join(all, ", ") + " }"
}

func (r dice) limitsFile(kind int) string {
	var b strings.Builder
	v4, v6 := []int{32, 24, 9, 32}[kind], []int{64, 128, 47, 56}[kind]
	var groups []string // the prefixes that clients may share a bucket by
	for _, text := range dicePrefixes {
		if p := prefixOf(text); p.Bits() <= v4 || p.Addr().Is6() && p.Bits() <= v6 {
			groups = append(groups, text)
		}
	}
	fmt.Fprintf(&b, "[defaults]\nreplicas = %d\non_error = %q\nipv4_prefix = %d\nipv6_prefix = %d\n",
		1+r.IntN(3), r.one("local", "allow", "deny"), v4, v6)
	rule := func(table string) {
		fmt.Fprintf(&b, "[%s]\nmatch = %s\n", table, r.condition(r.pathPatterns(), r.IntN(2)+kind%2))
		if r.in(3) {
			fmt.Fprintf(&b, "unless = %s\n", r.condition(nil, 1+r.IntN(2)))
		}
	}
	for i := range r.IntN(4) {
		rule(fmt.Sprintf("deny.d%d", i))
	}
	for i := range r.IntN(4) {
		rule(fmt.Sprintf("allow.a%d", i))
	}
	for i := range []int{3, 12, 40, 90}[kind] {
		r.limit(&b, fmt.Sprintf("l%d_%d", r.IntN(1000), i), groups)
	}
	for i := range 4 {
		fmt.Fprintf(&b, "[limit.path%d]\nmatch.path = %s\nkey = [\"path\"]\nalgorithm = \"fixed_window\"\nrate = \"1/s\"\n",
			i, quoteAll([]string{r.starPath(), r.starPath(), r.starPath(), r.starPath()}))
	}
	return b.String()
}

// starPath and shortPath are of a few letters, so that they often meet, and often just not.
func (r dice) starPath() string {
	var b strings.Builder
	for range 1 + r.IntN(6) {
		b.WriteString("/" + r.one("a", "b", "ab", "*", "**", "**", "a*", "*b", "a*b", "*a*b", "b*b"))
	}
	return b.String()
}

func (r dice) shortPath() string {
	var b strings.Builder
	for range 1 + r.IntN(7) {
		b.WriteString("/" + r.one("a", "b", "ab", "aab", "ba"))
	}
	return b.String()
}

func (r dice) limit(b *strings.Builder, name string, groups []string) {
	fmt.Fprintf(b, "[limit.%s]\n", name)
	var paths []string
	if !r.in(3) {
		paths = r.pathPatterns()
	}
	if things := r.IntN(3); things > 0 || paths != nil {
		fmt.Fprintf(b, "match = %s\n", r.condition(paths, things))
	}
	if r.in(4) {
		fmt.Fprintf(b, "unless = %s\n", r.condition(nil, 1+r.IntN(2)))
	}
	key := r.key(paths)
	fmt.Fprintf(b, "key = %s\nmissing = %q\n", quoteAll(key), r.one("skip", "deny", "share", "ip"))
	algorithm := r.one("token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter")
	rate := func() string {
		return fmt.Sprintf("%d/%s", 100+r.IntN(900), r.one("s", "m", "10s", "250ms", "2h", "d"))
	}
	fmt.Fprintf(b, "algorithm = %q\nrate = %q\nmode = %q\n", algorithm, r.one(rate(), rate(), rate(), "0/s", "unlimited"),
		r.one("enforce", "enforce", "shadow"))
	if algorithm == "fixed_window" {
		fmt.Fprintf(b, "utc_offset = %q\n", r.one("+08:00", "-03:30", "+00:00"))
	}
	if r.in(3) {
		fmt.Fprintf(b, "on_error = %q\n", r.one("local", "allow", "deny"))
	}
	switch {
	case algorithm == "leaky_bucket": // whose capacity is 1
	case r.in(3):
		fmt.Fprintf(b, "cost = %d\n", 1+r.IntN(20))
	case r.in(2):
		fmt.Fprintf(b, "cost = \"header:X-Cost\"\ncost_max = %d\n", 1+r.IntN(100))
	}
	written := map[string]bool{}
	for range r.IntN(6) {
		override := r.override(key, paths, groups)
		if len(key) > 0 && override != "" && !written[override] {
			written[override] = true
			fmt.Fprintf(b, "[override.%s.%q]\nrate = %q\n", name, override, r.one(rate(), rate(), "0/s", "unlimited"))
		}
	}
}

func (r dice) key(paths []string) []string {
	var key []string
	for range r.IntN(4) {
		part := r.one("ip", "ip", "host", "method", "zone", "path:raw", "path")
		if r.in(2) {
			part = r.one("header:"+r.one("X-API-Key", "x-plan", "cookie"), "cookie:"+r.one(diceCookies...), "query:"+r.one(diceQueries...))
		}
		if part == "path" && paths == nil || slices.Contains(key, part) {
			continue
		}
		key = append(key, part)
	}
	return key
}

// override is a key as [override.NAME."KEY"] has it, "" if these values cannot be written in one.
func (r dice) override(key, paths, groups []string) string {
	var values []string
	for _, part := range key {
		kind, name, _ := strings.Cut(part, ":")
		value := r.one(diceValues...)
		switch {
		case kind == "ip":
			value = r.one(groups...)
		case kind == "host":
			value = strings.Join(r.some(2, diceLabels), ".")
		case kind == "method":
			value = r.one(diceMethods...)
		case kind == "zone":
			value = r.one(diceZones...)
		case part == "path":
			value = paths[0]
		case part == "path:raw":
			value = "/" + r.one(diceSegments...)
		case kind == "cookie" || strings.Contains(strings.ToLower(name), "key") || name == "token":
			if len(value)%2 == 0 { // not r.in(2): one value twice would be an error
				value = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(value)))
			}
		}
		if strings.Contains(value, "|") && len(key) > 1 {
			return ""
		}
		values = append(values, value)
	}
	return strings.Join(values, "|")
}
