package limits

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON is the set in its canonical form, a line: the same files give the same bytes. It has all that
// is needed to match and key requests without the limits file. The secrets that overrides are for are
// digests in it, but the patterns of match and unless stand there as they were written: a secret among
// them is as readable as in the limits file.
//
//	{"version":"…","key_prefix":"authz",
//	 "defaults":{"hold_max_us":400000,"replicas":1,"ipv4_prefix":32,"ipv6_prefix":64},
//	 "deny":[RULE…],"allow":[RULE…],"limits":[LIMIT…]}
//
// version is the SHA-256, in hex, of all bytes after its closing quote: from the comma (byte 77,
// counted from 0) to the newline that ends the text. Rules and limits are asked in the order given:
// deny, allow, limits.
//
// RULE is {"name":…,"match":COND,"unless":COND}; a COND that was not written is absent: no match holds
// always, no unless never. COND is {"path":[P…],"host":[P…],"method":[P…],"zone":[P…],"ip":["10.0.0.0/8"…],
// "header":{"x-name":[P…]},"query":{…},"cookie":{…}}: all that is there must hold, any P of a list will
// do. A P has no escapes, "*" is always a wildcard; only those of a path are percent-encoded: %XX is
// the byte XX (decode them once, before anything else). Hosts and header names are in lower case.
//
// LIMIT is a RULE with
//
//	"key": [PART…]               [] is one bucket for everybody
//	"missing": "skip"            or "deny", "share", "ip"; absent: no part can be missing (if one is, as "share")
//	"cost": 1                    or "cost_header": "x-cost", "cost_max": 50
//	"algorithm": "token_bucket"
//	"rate": RATE
//	"schedules": [SCHEDULE…]     when the limit has other numbers
//	"shadow": false
//	"on_error": "local"          or "allow", "deny"
//	"overrides": {"IDENTITY": RATE…}
//	"override_prefixes": {"ipv4":[32,8],"ipv6":[64]}   when a part of the key is ip
//
// PART is {"kind":"header","name":"x-api-key","head":"header:x-api-key=","secret":true}: in an identity
// stands head, then the value: escaped; as its digest when it is secret or longer than 64 bytes. Its
// kinds are ip, host, method, path, path:raw, zone, header, query and cookie. A path part also has
// "texts": what follows head for each P of match.path, of which the first that matched counts.
//
// RATE is {"limit":100,"window_us":1000000,"burst":200,"initial":40,"n":1,"w":10000,"capacity":2000000,
// "share":RATE}: n, w and capacity are for the two buckets and, like burst, absent when 0; initial is what
// a token bucket holds that was never used, absent when that is burst; so is offset_us, which stands
// after window_us and is where the windows of a fixed_window begin; share is what one of replicas
// instances may admit alone, absent when that is the same. Or {"unlimited":true}.
//
// An override is found by the identity before it is digested as a whole. Where a part is ip, it stands
// there as a prefix: each length of the address's family in override_prefixes is tried, in that order,
// with the ip part written as that prefix of the address (one address as itself: "ip=203.0.113.9",
// else "ip=10.0.0.0/8").
//
// SCHEDULE is {"name":"sale","rate":RATE,"from_us":1795734000000000,"until_us":1796079600000000,
// "week":[[32400000000,64800000000]…],"zone":"Europe/Berlin"}: its RATE counts in the place of the limit's
// (not of an override's) while all that is there holds, and no two of a limit do at once. from_us and
// until_us, the first microsecond at which it is over, are counted from 1970; the spans of week from the
// begin of Monday in the zone's local time. Every zone that is named so stands in
//
//	"zones":{"Europe/Berlin":{"offset_us":3600000000,"changes":[[1711846800000000,7200000000]…]}…}
//
// which follows "limits", and is absent when none is: local time is UTC and offset_us until the first
// change, and from each change on UTC and its second number. While clocks are put back, so that local
// times are there twice, a span holds at an instant if it does at any of these that clocks have shown or
// will show; limits/zone.go says it exactly.
func (s *Set) JSON() []byte {
	text := append([]byte(`{"version":"`), s.version...)
	return append(append(text, '"'), s.jsonRest()...)
}

// Version is that of the JSON: sets of one version answer every request alike.
func (s *Set) Version() string { return s.version }

// jsonRest is the JSON after its version.
func (s *Set) jsonRest() []byte {
	doc := setJSON{
		KeyPrefix: s.spec.keyPrefix,
		Defaults: defaultsJSON{
			HoldMaxUS: s.spec.holdMaxUS, Replicas: s.spec.replicas,
			IPv4Prefix: s.spec.ipv4Prefix, IPv6Prefix: s.spec.ipv6Prefix,
		},
		Deny: []ruleJSON{}, Allow: []ruleJSON{}, Limits: []limitJSON{},
	}
	for i := range s.spec.deny {
		doc.Deny = append(doc.Deny, newRuleJSON(&s.spec.deny[i]))
	}
	for i := range s.spec.allow {
		doc.Allow = append(doc.Allow, newRuleJSON(&s.spec.allow[i]))
	}
	for i := range s.spec.limits {
		doc.Limits = append(doc.Limits, s.limitJSON(&s.spec.limits[i], &s.limits[i].keying))
	}
	doc.Zones = zonesJSON(s.spec.limits)
	var rest bytes.Buffer
	encoder := json.NewEncoder(&rest)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(doc); err != nil {
		panic("BUG: " + err.Error()) // there is nothing in it that JSON lacks
	}
	rest.Bytes()[0] = ','
	return rest.Bytes()
}

type setJSON struct {
	KeyPrefix string       `json:"key_prefix"`
	Defaults  defaultsJSON `json:"defaults"`
	Deny      []ruleJSON   `json:"deny"`
	Allow     []ruleJSON   `json:"allow"`
	Limits    []limitJSON  `json:"limits"`

	Zones map[string]zoneJSON `json:"zones,omitempty"`
}

type defaultsJSON struct {
	HoldMaxUS  int64 `json:"hold_max_us"`
	Replicas   int64 `json:"replicas"`
	IPv4Prefix int   `json:"ipv4_prefix"`
	IPv6Prefix int   `json:"ipv6_prefix"`
}

type ruleJSON struct {
	Name   string    `json:"name"`
	Match  *condJSON `json:"match,omitempty"`
	Unless *condJSON `json:"unless,omitempty"`
}

type condJSON struct {
	Path   []string            `json:"path,omitempty"`
	Host   []string            `json:"host,omitempty"`
	Method []string            `json:"method,omitempty"`
	Zone   []string            `json:"zone,omitempty"`
	IP     []string            `json:"ip,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	Query  map[string][]string `json:"query,omitempty"`
	Cookie map[string][]string `json:"cookie,omitempty"`
}

type limitJSON struct {
	ruleJSON
	Key        []partJSON          `json:"key"`
	Missing    string              `json:"missing,omitempty"`
	Cost       int64               `json:"cost,omitempty"`
	CostHeader string              `json:"cost_header,omitempty"`
	CostMax    int64               `json:"cost_max,omitempty"`
	Algorithm  string              `json:"algorithm"`
	Rate       rateJSON            `json:"rate"`
	Schedules  []scheduleJSON      `json:"schedules,omitempty"`
	Shadow     bool                `json:"shadow"`
	OnError    string              `json:"on_error"`
	Overrides  map[string]rateJSON `json:"overrides,omitempty"`
	Prefixes   *prefixesJSON       `json:"override_prefixes,omitempty"`
}

type partJSON struct {
	Kind   string   `json:"kind"`
	Name   string   `json:"name,omitempty"`
	Head   string   `json:"head"`
	Secret bool     `json:"secret,omitempty"`
	Texts  []string `json:"texts,omitempty"`
}

type rateJSON struct {
	Unlimited bool      `json:"unlimited,omitempty"`
	Limit     *int64    `json:"limit,omitempty"` // nil only when unlimited
	WindowUS  int64     `json:"window_us,omitempty"`
	OffsetUS  int64     `json:"offset_us,omitempty"`
	Burst     int64     `json:"burst,omitempty"`
	Initial   int64     `json:"initial,omitempty"`
	N         int64     `json:"n,omitempty"`
	W         int64     `json:"w,omitempty"`
	Capacity  int64     `json:"capacity,omitempty"`
	Share     *rateJSON `json:"share,omitempty"`
}

type prefixesJSON struct {
	IPv4 []int `json:"ipv4"`
	IPv6 []int `json:"ipv6"`
}

func newRuleJSON(sp *ruleSpec) ruleJSON {
	return ruleJSON{Name: sp.name, Match: newCondJSON(&sp.match), Unless: newCondJSON(&sp.unless)}
}

func newCondJSON(sp *condSpec) *condJSON {
	names := func(specs []nameSpec) map[string][]string {
		patterns := map[string][]string{}
		for _, n := range specs {
			patterns[n.name] = n.patterns
		}
		return patterns
	}
	c := condJSON{
		Host: sp.host, Method: sp.method, Zone: sp.zone,
		Header: names(sp.header), Query: names(sp.query), Cookie: names(sp.cookie),
	}
	for _, p := range sp.path {
		c.Path = append(c.Path, percentEncoded(p))
	}
	for _, p := range sp.ip {
		c.IP = append(c.IP, p.String())
	}
	if len(c.Path)+len(c.Host)+len(c.Method)+len(c.Zone)+len(c.IP)+len(c.Header)+len(c.Query)+len(c.Cookie) == 0 {
		return nil
	}
	return &c
}

// percentEncoded keeps a path with bytes that are not UTF-8 exact; JSON would replace them.
func percentEncoded(path string) string {
	var text []byte
	for _, c := range []byte(path) {
		if c <= ' ' || c >= 0x7f || c == '%' {
			const digits = "0123456789ABCDEF"
			text = append(text, '%', digits[c>>4], digits[c&15])
		} else {
			text = append(text, c)
		}
	}
	return string(text)
}

func (s *Set) limitJSON(sp *limitSpec, k *keying) limitJSON {
	l := limitJSON{
		ruleJSON: newRuleJSON(&sp.ruleSpec), Key: []partJSON{}, Missing: sp.missing.String(),
		Cost: sp.cost, CostHeader: sp.costHeader, CostMax: sp.costMax,
		Algorithm: sp.algorithm.String(), Rate: newRateJSON(sp.rate),
		Shadow: sp.shadow, OnError: sp.onError.String(),
	}
	for i, at := range k.parts {
		p := &s.parts[at]
		kind := strings.TrimSuffix(partNames[p.kind], ":")
		l.Key = append(l.Key, partJSON{kind, sp.key[i].name, p.head, p.secret, p.texts})
	}
	for _, one := range sp.schedules {
		l.Schedules = append(l.Schedules, newScheduleJSON(one))
	}
	for _, o := range sp.overrides {
		if l.Overrides == nil {
			l.Overrides = make(map[string]rateJSON, len(sp.overrides))
		}
		l.Overrides[string(s.overrideIdentity(k, o.values))] = newRateJSON(o.rate)
	}
	if o := k.overrides; o != nil && o.byIP {
		l.Prefixes = &prefixesJSON{append([]int{}, o.lengths.v4...), append([]int{}, o.lengths.v6...)}
	}
	return l
}

func (s *Set) overrideIdentity(k *keying, values []string) []byte {
	var identity []byte
	for i, at := range k.parts {
		if i > 0 {
			identity = append(identity, '|')
		}
		identity = appendOverrideValue(identity, &s.parts[at], values[i])
	}
	return identity
}

func newRateJSON(r *Rate) rateJSON {
	if r.Unlimited {
		return rateJSON{Unlimited: true}
	}
	j := rateJSON{Limit: &r.Count, WindowUS: r.WindowUS, OffsetUS: r.OffsetUS, Burst: r.Burst, Initial: r.Initial, N: r.N, W: r.W, Capacity: r.Capacity}
	if r.Share != nil {
		share := newRateJSON(r.Share)
		j.Share = &share
	}
	return j
}
