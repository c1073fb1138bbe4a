// Package limits is the limits file: what the operator wrote, and which of it meets a request.
//
// Load reads TOML files into a Set, Set.Match says which limits meet a request and whose buckets
// they charge, Set.JSON writes the set for OpenResty. Nothing here decides or stores.
package limits

import "net/netip"

// Algorithm says how a limit counts. The values are those that the take script is handed.
type Algorithm uint8

const (
	TokenBucket    Algorithm = 1
	LeakyBucket    Algorithm = 2
	FixedWindow    Algorithm = 3
	SlidingWindow  Algorithm = 4
	SlidingCounter Algorithm = 5
)

// Algorithms is all of them, in the order of their values.
var Algorithms = [...]Algorithm{TokenBucket, LeakyBucket, FixedWindow, SlidingWindow, SlidingCounter}

// A name is what the limits file says, a code what ends a Redis key.
var algorithms = [...]struct{ name, code string }{
	TokenBucket:    {"token_bucket", "tb"},
	LeakyBucket:    {"leaky_bucket", "lb"},
	FixedWindow:    {"fixed_window", "fw"},
	SlidingWindow:  {"sliding_window", "sw"},
	SlidingCounter: {"sliding_counter", "sc"},
}

func (a Algorithm) String() string { return algorithms[a].name }

// Code is the two letters that end a Redis key.
func (a Algorithm) Code() string { return algorithms[a].code }

// IsBucket says whether a limit of this algorithm has a burst.
func (a Algorithm) IsBucket() bool { return a == TokenBucket || a == LeakyBucket }

// OnError says what answers for a limit when the store cannot.
type OnError uint8

const (
	OnErrorLocal OnError = iota // the in-memory store, with this instance's share
	OnErrorAllow
	OnErrorDeny
)

var onErrors = [...]string{OnErrorLocal: "local", OnErrorAllow: "allow", OnErrorDeny: "deny"}

func (e OnError) String() string { return onErrors[e] }

// Rate is the numbers of a limit, an override or a schedule: Count requests a WindowUS.
type Rate struct {
	Count     int64 // 0 refuses everything ("0/s") and is never sent to a store
	WindowUS  int64 // microseconds
	Burst     int64 // buckets only: a token bucket's size, a leaky bucket's queue
	Initial   int64 // token buckets only: what one holds that was never used; 0: Burst
	OffsetUS  int64 // fixed_window: where its windows begin, (-utc_offset) mod window
	Unlimited bool  // "unlimited": admits, and is no check at all

	// Buckets count in 1/W token: they hold Capacity, gain N a microsecond, and cost*W is the
	// price (semantics: N per W is Count per WindowUS in lowest terms). 0 for windows.
	N, W, Capacity int64

	// Share is what one of `replicas` instances may admit on its own while the store is out of
	// reach. Nil: as much as all of them.
	Share *Rate
}

// Local is the rate of this instance on its own.
func (r *Rate) Local() *Rate {
	if r.Share != nil {
		return r.Share
	}
	return r
}

// Cold is what is used, in 1/W token, of a token bucket that was never used. It reads so again when it has
// been full for as long as it takes to fill.
func (r *Rate) Cold() int64 {
	if r.Initial == 0 {
		return 0
	}
	return (r.Burst - r.Initial) * r.W
}

// WindowBeginUS is when the aligned window of a time begins; both are microseconds since 1970.
func (r *Rate) WindowBeginUS(nowUS int64) int64 {
	return nowUS - modulo(nowUS-r.OffsetUS, r.WindowUS)
}

// Size is the largest cost that the rate can ever admit at once. An unused key has as much left, but for one
// with an Initial.
func (r *Rate) Size(a Algorithm) int64 {
	switch {
	case r.Count == 0:
		return 0
	case a == TokenBucket:
		return r.Burst
	case a == LeakyBucket:
		return r.Burst + 1
	}
	return r.Count
}

// MaxSize is the largest Size that is counted exactly with this rate's window; for buckets, with its Count
// and window: their Burst alone makes them larger. 0 for a bucket of Count 0.
func (r *Rate) MaxSize(a Algorithm) int64 {
	switch {
	case a == SlidingWindow:
		return slidingWindowMaxCount
	case a == SlidingCounter:
		return maxProduct / r.WindowUS
	case !a.IsBucket():
		return maxCount
	case r.W == 0:
		return 0
	}
	return maxProduct / r.W
}

// Limit is one [limit.NAME] table.
type Limit struct {
	Name      string
	Index     int // its place in Set.Limits
	Algorithm Algorithm
	Rate      Rate
	Shadow    bool // counted and reported, never refuses
	OnError   OnError

	keying    keying
	schedules []*schedule
}

// Check is one limit, one key and a cost: a row of what a store is asked.
type Check struct {
	Limit *Limit
	Rate  *Rate  // the limit's, a schedule's or an override's
	Key   []byte // the whole Redis key; the Match that made it owns the bytes
	Cost  int64

	// LeftUS is for how long no schedule can change the numbers, in microseconds; 0: none ever does, since the
	// limit has none, or an override has these numbers.
	LeftUS int64
}

// Attrs is what is known of a request. Absent and empty are the same. The bytes belong to the
// caller and are read only until Match returns.
type Attrs struct {
	Method, Host, Zone []byte     // of a host, case, port and one trailing dot do not matter
	Path, Query        []byte     // as Target returns them
	IP                 netip.Addr // the zero Addr: unknown
	Headers            [][]byte   // one for each of Set.HeaderNames; the lines of a name joined by ", "
	Cookie             []byte     // the Cookie header; its lines joined by "; "
	NowUS              int64      // when it is decided, microseconds since 1970: read if Set.Scheduled
}

// Verdict is what the rules say before any store is asked.
type Verdict uint8

const (
	None   Verdict = iota // no rule meets the request: admitted
	Allow                 // an [allow] rule: admitted, no limit applies
	Deny                  // a [deny] rule, or a limit with missing = "deny": blocked
	Limits                // Match.Checks decide
)

func (v Verdict) String() string { return [...]string{"none", "allow", "deny", "limits"}[v] }

// Match is what meets a request. It owns its memory and is meant to be used again.
type Match struct {
	Verdict   Verdict
	Rule      string   // the name of the allow or deny rule, or of Limit
	Limit     *Limit   // whose missing part denies; nil unless that is why
	Checks    []Check  // by name; those with Rate.Count 0 among them
	Unlimited []*Limit // met, but the rate is "unlimited": no check
	Missing   []*Limit // a part of their key was missing

	scratch
}
