package limits

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

const (
	maxCount    = 1<<53 - 1 // counts, bursts and costs: whole in every runtime
	maxProduct  = 1 << 53   // what scripts multiply stays exact up to here
	maxWindowUS = 366 * 24 * 3600 * 1000000

	slidingWindowMaxCount = 10000 // a log of more members would block Redis
	slidingWindowMaxCost  = 100
)

// units of a window, the largest first.
var units = [...]struct {
	name string
	us   int64
}{
	{"d", 24 * 3600 * 1000000},
	{"h", 3600 * 1000000},
	{"m", 60 * 1000000},
	{"s", 1000000},
	{"ms", 1000},
}

const wantRate = `"COUNT/[N]UNIT" such as "5/m" or "100/10s" (units: ms, s, m, h, d; nginx's "10r/s" too), or "unlimited"`

// ParseRate reads what stands at rate in a limits file: "5/m", "100/10s", "10r/s" or "unlimited". It has Count
// and WindowUS, or Unlimited; NewRate makes of them what a store takes. The error says what would be right.
func ParseRate(text string) (Rate, error) {
	r, want := parseRate(text)
	if want != "" {
		return Rate{}, fmt.Errorf("%q, want %s", text, want)
	}
	return r, nil
}

// parseRate reads "5/m", "100/10s", "10r/s" or "unlimited" into Count and WindowUS. The second result
// is empty, or what would be right.
func parseRate(text string) (Rate, string) {
	if text == "unlimited" {
		return Rate{Unlimited: true}, ""
	}
	count, window, ok := strings.Cut(text, "/")
	n, ok2 := digits(strings.TrimSuffix(count, "r"))
	windowUS, ok3 := parseSpan(window)
	switch {
	case !ok || !ok2 || !ok3:
		return Rate{}, wantRate
	case n > maxCount:
		return Rate{}, fmt.Sprintf("a count of 0 to %d", int64(maxCount))
	case windowUS < 1 || windowUS > maxWindowUS:
		return Rate{}, "a window of 1ms to 366d"
	}
	return Rate{Count: n, WindowUS: windowUS}, ""
}

// parseSpan reads "10s", or "s" for one, in microseconds; what is too large is math.MaxInt64.
func parseSpan(text string) (int64, bool) {
	name := strings.TrimLeft(text, "0123456789")
	n := int64(1)
	if number := text[:len(text)-len(name)]; number != "" {
		n, _ = digits(number)
	}
	for _, unit := range units {
		if unit.name == name {
			if n > math.MaxInt64/unit.us {
				return math.MaxInt64, true
			}
			return n * unit.us, true
		}
	}
	return 0, false
}

// digits reads a whole number without a sign; what is too large is math.MaxInt64.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}

// numbers is what a limit, an override or a schedule has written. Nil was not written, or is wrong.
type numbers struct {
	written     *Rate // Count and WindowUS, or Unlimited
	burst       *int64
	utcOffsetUS int64 // the others have their limit's
}

// numbers reads rate and burst. Algorithm 0 is one that is not known.
func (t *table) numbers(a Algorithm) numbers {
	var n numbers
	if text, ok := t.text("rate", wantRate); ok {
		rate, want := parseRate(text)
		if want == "" {
			n.written = &rate
		} else {
			t.wrong("rate", "%s", want)
		}
	}
	switch {
	case !t.has("burst"):
	case a != 0 && !a.IsBucket():
		t.wrong("burst", "none: only token_bucket and leaky_bucket have a burst, this is a %s", a)
	default:
		lo := int64(1)
		if a == LeakyBucket || a == 0 {
			lo = 0
		}
		if burst, ok := t.whole("burst", lo, maxCount); ok {
			n.burst = &burst
		}
	}
	return n
}

// String is the rate as the limits file has it: "5/m".
func (r *Rate) String() string {
	if r.Unlimited {
		return "unlimited"
	}
	window := duration(r.WindowUS)
	if n := strings.TrimLeft(window, "0123456789"); window == "1"+n {
		window = n
	}
	return fmt.Sprintf("%d/%s", r.Count, window)
}

// NewRate is the rate of a limit that has these numbers: count requests in windowUS microseconds. Burst is for
// the two buckets only; nil is what the algorithm has without one. Whether they can be counted exactly, MaxSize
// says.
func NewRate(a Algorithm, count, windowUS int64, burst *int64) *Rate {
	return newRate(a, count, windowUS, burst, 0)
}

// newRate makes of numbers what a store takes. The product of a bucket is not checked yet.
func newRate(a Algorithm, count, windowUS int64, burst *int64, utcOffsetUS int64) *Rate {
	r := &Rate{Count: count, WindowUS: windowUS}
	r.OffsetUS = (windowUS - utcOffsetUS%windowUS) % windowUS
	if !a.IsBucket() {
		return r
	}
	switch {
	case burst != nil:
		r.Burst = *burst
	case a == TokenBucket:
		r.Burst = count
	}
	if count > 0 {
		g := gcd(count, windowUS)
		r.N, r.W = count/g, windowUS/g
		r.Capacity = r.Size(a) * r.W
	}
	return r
}

func gcd(a, b int64) int64 {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// fit makes the rate of a limit, or of its override or schedule, and reports what is out of bounds: at burst if the
// table has one, else at rate. Nil: it is.
func (t *table) fit(d *draft, n numbers) *Rate {
	if n.written.Unlimited {
		return n.written
	}
	a := d.algorithm
	r := newRate(a, n.written.Count, n.written.WindowUS, n.burst, n.utcOffsetUS)
	if r.Count == 0 {
		return r
	}
	switch size := r.MaxSize(a); {
	case r.Size(a) <= size:
	case a == SlidingWindow:
		t.wrong("rate", "a count of 1 to %d; sliding_counter, token_bucket and fixed_window take larger ones", size)
		return nil
	case a == SlidingCounter:
		t.wrong("rate", "a count of 1 to %d in this window; fixed_window takes larger ones", size)
		return nil
	case a.IsBucket():
		t.wrongBurst(r, size-(r.Size(a)-r.Burst), "more cannot be counted exactly", a)
		return nil
	}
	if holdMaxUS := t.p.spec.holdMaxUS; a == LeakyBucket && r.Burst*r.W > maxHold(holdMaxUS, r.N) {
		hold := (r.Burst*r.W + r.N - 1) / r.N
		t.wrongBurst(r, maxHold(holdMaxUS, r.N)/r.W,
			fmt.Sprintf("the last of %d is held for %s, and hold_max is %s", r.Burst, duration(hold), duration(holdMaxUS)), a)
		return nil
	}
	if d.mostCost() > r.Size(a) {
		t.wrongCost(d, r.Size(a))
		return nil
	}
	if !t.start(d, r) {
		return nil
	}
	return t.share(d, r, n.utcOffsetUS)
}

// wrongCost reports a cost that is never admitted: at what was written last.
func (t *table) wrongCost(d *draft, size int64) {
	switch {
	case t.path[0] != "limit":
		t.wrong(t.burstOrRate(), `room for %d, the cost of a request; or rate = "0/s", which refuses all`, d.mostCost())
	case d.costHeader != "":
		t.wrong("cost_max", "%s: no more is ever admitted", span(1, size))
	default:
		t.wrong("cost", "%s: no more is ever admitted", span(1, size))
	}
}

// maxHold is holdMaxUS*n, or when that is beyond all capacities the largest of them.
func maxHold(holdMaxUS, n int64) int64 {
	if holdMaxUS > maxProduct/n {
		return maxProduct
	}
	return holdMaxUS * n
}

// burstOrRate is the key to blame for what both make.
func (t *table) burstOrRate() string {
	if t.has("burst") {
		return "burst"
	}
	return "rate"
}

// wrongBurst reports a burst that is larger than hi, or a rate that makes it so.
func (t *table) wrongBurst(r *Rate, hi int64, reason string, a Algorithm) {
	lo := int64(1)
	if a == LeakyBucket {
		lo = 0
	}
	if t.has("burst") {
		t.wrong("burst", "%s at %s: %s", span(lo, hi), r, reason)
		return
	}
	t.wrong("rate", "burst = %s at this rate, it is %d: %s", span(lo, hi), r.Burst, reason)
}

// share gives the rate its share of one instance: max(1, floor(n/replicas)) of count and burst, but a
// leaky bucket's queue no longer than may be held, and always room for one request of a fixed cost,
// since else nobody would be admitted.
func (t *table) share(d *draft, r *Rate, utcOffsetUS int64) *Rate {
	replicas := t.p.spec.replicas
	if replicas == 1 {
		return r
	}
	a, cost := d.algorithm, d.cost // 0: a header says
	count, burst := max(1, r.Count/replicas), r.Burst/replicas
	switch a {
	case TokenBucket:
		burst = max(1, burst, cost)
	case LeakyBucket:
		g := gcd(count, r.WindowUS)
		longest := maxHold(t.p.spec.holdMaxUS, count/g) / (r.WindowUS / g)
		burst = max(min(max(1, burst), r.Burst, longest), cost-1)
	default:
		count = max(count, cost)
	}
	share := newRate(a, count, r.WindowUS, &burst, utcOffsetUS)
	if a.IsBucket() && share.Size(a) > share.MaxSize(a) {
		t.wrong(t.burstOrRate(), "numbers that replicas = %d divides: a share of %s with a burst of %d cannot be counted exactly",
			replicas, share, burst)
		return nil
	}
	if d.initial != nil {
		share.setInitial(max(d.tokens(share.Burst), d.mostCost()))
	}
	if *share != *r {
		r.Share = share
	}
	return r
}
