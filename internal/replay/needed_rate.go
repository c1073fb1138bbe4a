package replay

import "math/bits"

// A neededRate finds the smallest rate at which a bucket of some size would have refused a key nothing: such
// that from no request on more is asked for than the size and what is gained meanwhile.
//
// Of the requests to count from only those are kept that may yet need the most: the lower convex hull of
// what was asked before each, over time. When the bucket is full again at the rate that is needed so far, the
// next request alone needs as much as any before it.
type neededRate struct {
	count int64 // in the limit's window; 0: nothing was asked
	asked int64 // since the first corner
	from  []corner
}

// A corner is a request, and what was asked before it.
type corner struct{ atUS, before int64 }

// add takes in a request.
func (r *neededRate) add(size, cost, windowUS, nowUS int64) {
	if r.count == beyond {
		return
	}
	if r.count = max(1, r.count); r.full(windowUS, nowUS) {
		r.asked, r.from = 0, r.from[:0]
	}
	r.keep(corner{nowUS, r.asked})
	r.asked += cost
	for _, c := range r.from {
		if over := r.asked - c.before - size; over > 0 {
			r.count = max(r.count, scaledUp(over, nowUS-c.atUS, windowUS))
		}
	}
	if r.count == beyond || r.asked > beyond/2 {
		*r = neededRate{count: beyond} // no rate is enough for what is asked in one instant
	}
}

// full says whether a bucket that is refilled by count has all it holds.
func (r *neededRate) full(windowUS, nowUS int64) bool {
	for _, c := range r.from {
		if lessProduct(r.count, nowUS-c.atUS, r.asked-c.before, windowUS) {
			return false
		}
	}
	return true
}

// keep adds a corner, and drops those that are on the line from their neighbours to it, or above.
func (r *neededRate) keep(c corner) {
	if n := len(r.from); n > 0 && r.from[n-1].atUS == c.atUS {
		return // less was asked before the first of an instant
	}
	for n := len(r.from); n >= 2; n-- {
		a, b := r.from[n-2], r.from[n-1]
		if lessProduct(b.before-a.before, c.atUS-a.atUS, b.atUS-a.atUS, c.before-a.before) {
			break
		}
		r.from = r.from[:n-1]
	}
	r.from = append(r.from, c)
}

// lessProduct says exactly whether a*b < c*d; none is below 0.
func lessProduct(a, b, c, d int64) bool {
	highAB, lowAB := bits.Mul64(uint64(a), uint64(b))
	highCD, lowCD := bits.Mul64(uint64(c), uint64(d))
	return highAB < highCD || highAB == highCD && lowAB < lowCD
}

// scaledUp is scaled, rounded up; of nothing it is beyond.
func scaledUp(n, all, size int64) int64 {
	if all == 0 {
		return beyond
	}
	down := scaled(n, all, size)
	if down < beyond && lessProduct(down, all, n, size) {
		down++
	}
	return down
}
