package limits

import "net/netip"

// A spec is the set as it was written, checked and made canonical: parse makes it out of TOML and
// knows the lines, compile makes a Set of it, JSON writes it. It does not change once it is made.
// Rules stand in the order of their names.
type spec struct {
	keyPrefix              string // what Redis keys begin with: "authz"
	ipv4Prefix, ipv6Prefix int
	holdMaxUS              int64 // microseconds
	replicas               int64
	deny, allow            []ruleSpec
	limits                 []limitSpec
}

// A ruleSpec is a [deny.NAME] or [allow.NAME] table, and the part of [limit.NAME] that matches.
type ruleSpec struct {
	name   string
	match  condSpec
	unless condSpec // empty: never holds
}

// A condSpec is a match or unless table. A nil list was not written; all that is written must hold,
// any pattern of a list will do.
type condSpec struct {
	path   []string // canonical path patterns
	host   []string // lower case
	method []string
	zone   []string
	ip     []netip.Prefix // masked
	header []nameSpec     // names in lower case, in order
	query  []nameSpec
	cookie []nameSpec
}

// A nameSpec is a header, query or cookie name and the patterns its value may meet.
type nameSpec struct {
	name     string
	patterns []string
}

type limitSpec struct {
	ruleSpec
	algorithm  Algorithm
	rate       *Rate
	shadow     bool
	onError    OnError
	key        []partSpec
	missing    missing
	cost       int64  // 0: costHeader says
	costHeader string // lower case
	costMax    int64  // what a bad or missing value costs, and the most that a good one may
	overrides  []overrideSpec
	schedules  []*schedule // by name
}

// A partSpec is one part of a key.
type partSpec struct {
	kind partKind
	name string // header (lower case), cookie or query name
}

func (p partSpec) String() string { return partNames[p.kind] + p.name }

type partKind uint8

const (
	partIP partKind = iota + 1
	partHost
	partMethod
	partPath // the first pattern of match.path that matched
	partPathRaw
	partZone
	partHeader
	partCookie
	partQuery
)

// partNames is what the limits file calls them, and how their text in an identity begins. A name follows
// a colon at the end.
var partNames = [...]string{
	partIP: "ip", partHost: "host", partMethod: "method", partPath: "path", partPathRaw: "path:raw",
	partZone: "zone", partHeader: "header:", partCookie: "cookie:", partQuery: "query:",
}

// missing says what becomes of a request that lacks a part of the key.
type missing uint8

const (
	missingNever missing = iota // no part can be absent
	missingSkip
	missingDeny
	missingShare
	missingIP
)

var missings = [...]string{missingNever: "", missingSkip: "skip", missingDeny: "deny", missingShare: "share", missingIP: "ip"}

func (m missing) String() string { return missings[m] }

// An overrideSpec is other numbers for one key: values are what the request has, one for each part of
// the key; an address or CIDR for ip; "sha256:" and 64 hex digits for a secret.
type overrideSpec struct {
	values []string
	rate   *Rate
}
