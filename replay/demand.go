package replay

import (
	"math/bits"

	"authz/limits"
)

// A demand is what one key has asked for, refusals or not, and the peaks of that: a limit with a number no
// smaller than the peak of its algorithm would have refused the key nothing.
type demand struct {
	hash uint64

	windowUS, inWindow, windowPeak int64 // aligned windows: where it begins, its count

	counterUS, previous, inCounter, counterPeak int64 // sliding_counter: two of them

	levelUS, level, levelPeak int64 // buckets: used, in 1/W token

	rate neededRate // of a bucket as large as the limit's

	log              []moment // sliding_window: what it still counts
	inLog, slidePeak int64
}

// moment is what was asked for at one time.
type moment struct{ atUS, n int64 }

// beyond is more than any number that is counted exactly, and far from an overflow.
const beyond = 1 << 60

// add takes in a request. Its limit's window counts, and its size if it is a bucket; bucket is its rate as
// buckets have it.
func (d *demand) add(c *limits.Check, bucket *limits.Rate, nowUS int64) {
	r := c.Rate
	if from := r.WindowBeginUS(nowUS); from != d.windowUS {
		d.windowUS, d.inWindow = from, 0
	}
	d.inWindow = min(beyond, d.inWindow+c.Cost)
	d.windowPeak = max(d.windowPeak, d.inWindow)

	d.addToCounter(r.WindowUS, c.Cost, nowUS)
	d.addToLog(r.WindowUS, c.Cost, nowUS)

	if bucket.N > 0 {
		d.level = min(beyond, drained(d.level, bucket.N, nowUS-d.levelUS)+times(c.Cost, bucket.W))
		d.levelUS = nowUS
		d.levelPeak = max(d.levelPeak, d.level)
	}
	if c.Limit.Algorithm.IsBucket() {
		d.rate.add(r.Size(c.Limit.Algorithm), c.Cost, r.WindowUS, nowUS)
	}
}

// addToCounter weighs the window before as sliding_counter does, whose windows begin with the epoch's.
func (d *demand) addToCounter(windowUS, cost, nowUS int64) {
	elapsedUS := nowUS % windowUS
	switch from := nowUS - elapsedUS; from - d.counterUS {
	case 0:
	case windowUS:
		d.counterUS, d.previous, d.inCounter = from, d.inCounter, 0
	default:
		d.counterUS, d.previous, d.inCounter = from, 0, 0
	}
	d.inCounter = min(beyond, d.inCounter+cost)
	// a quotient is never larger than previous, so it fits
	high, low := bits.Mul64(uint64(d.previous), uint64(windowUS-elapsedUS))
	weighed, rest := bits.Div64(high, low, uint64(windowUS))
	if rest > 0 {
		weighed++
	}
	d.counterPeak = max(d.counterPeak, int64(weighed)+d.inCounter)
}

// addToLog counts the window that ends now. Once the peak is above what sliding_window can count, the log
// says nothing any more.
func (d *demand) addToLog(windowUS, cost, nowUS int64) {
	if d.slidePeak > mostSliding {
		return
	}
	gone := 0
	for gone < len(d.log) && d.log[gone].atUS <= nowUS-windowUS {
		d.inLog -= d.log[gone].n
		gone++
	}
	d.log = d.log[gone:]
	d.inLog += cost
	if n := len(d.log); n > 0 && d.log[n-1].atUS == nowUS {
		d.log[n-1].n += cost
	} else {
		d.log = append(d.log, moment{nowUS, cost})
	}
	if d.slidePeak = max(d.slidePeak, d.inLog); d.slidePeak > mostSliding {
		d.log = nil
	}
}

var mostSliding = new(limits.Rate).MaxSize(limits.SlidingWindow)

// forget frees a log of which nothing is counted any more.
func (d *demand) forget(nowUS, windowUS int64) {
	if n := len(d.log); n > 0 && d.log[n-1].atUS <= nowUS-windowUS {
		d.log, d.inLog = nil, 0
	}
}

// A load is what one key asks for of a limit as it is, refusals or not.
type load struct {
	atUS, used int64
	w          int64 // buckets: used counts in 1/w token
}

// add takes in a request, and returns what the key asks for now: in a thousandth of what the limit admits.
// A window's is the count of the aligned window.
func (l *load) add(c *limits.Check, nowUS int64) int64 {
	r := c.Rate
	switch c.Limit.Algorithm {
	case limits.TokenBucket, limits.LeakyBucket:
		if r.N == 0 {
			return 0
		}
		switch {
		case l.atUS == 0:
			l.used = r.Cold()
		case l.w != r.W: // a schedule has begun or ended: whole tokens, as when a limit is edited
			l.used = times((l.used+l.w-1)/l.w, r.W)
			fallthrough
		default:
			l.used = drained(l.used, r.N, nowUS-l.atUS)
		}
		l.w, l.atUS, l.used = r.W, nowUS, min(beyond, l.used+times(c.Cost, r.W))
		return scaled(l.used, r.Capacity, 1000)
	}
	if from := r.WindowBeginUS(nowUS); from != l.atUS {
		l.atUS, l.used = from, 0
	}
	l.used = min(beyond, l.used+c.Cost)
	return scaled(l.used, r.Count, 1000)
}

// drained is what is left of a level after a time, at n a microsecond.
func drained(level, n, elapsedUS int64) int64 {
	if elapsedUS >= (level+n-1)/n {
		return 0
	}
	return level - elapsedUS*n
}

// times is a product, or beyond.
func times(a, b int64) int64 {
	if a > beyond/b {
		return beyond
	}
	return a * b
}

// scaled is n where all would be size, rounded down; 0 of nothing, and not more than beyond.
func scaled(n, all, size int64) int64 {
	if all == 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(size))
	if high >= uint64(all) {
		return beyond
	}
	quotient, _ := bits.Div64(high, low, uint64(all))
	return min(beyond, int64(quotient&(1<<63-1)))
}
