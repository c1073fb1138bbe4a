package toptalkers

import (
	"cmp"
	"context"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/limits"
)

// Talkers knows who is refused, by limit and key, in bounded memory whatever comes: which keys most in the last
// minute and hour, and one log line for the first refusal of a key in a while, and one for how many followed.
//
// Times are since the process began, by the clock that nobody sets.
type Talkers struct {
	seed   maphash.Seed
	shards [refusedShards]refusedShard

	log     *slog.Logger // nil: nothing is logged
	room    atomic.Int64 // first refusals that may be logged now
	leftOut atomic.Int64 // refusals that were not, for lack of room
	told    time.Duration
}

const (
	refusedShards = 16
	refusalRoom   = 100 // lines at once, and then
	refusalRate   = 10  // lines a second
	mostDenials   = 10_000 / refusedShards
	denialAtLeast = time.Minute
	denialAtMost  = time.Hour
	leftOutToldIn = time.Minute
	everySweep    = time.Second
)

// A refusedShard has the keys of some hashes.
type refusedShard struct {
	mu      sync.Mutex
	minute  [7]slice // of ten seconds
	hour    [13]slice
	denials map[string]*denial // by Redis key
}

// A denial is a key whose first refusal was logged, and those that came after it.
type denial struct {
	limit, key string
	first, end time.Duration
	more       int64
}

func New(log *slog.Logger) *Talkers {
	r := &Talkers{seed: maphash.MakeSeed(), log: log}
	for i := range r.shards {
		r.shards[i].denials = map[string]*denial{}
	}
	r.room.Store(refusalRoom)
	return r
}

// A Refusal is what the log says of one beside its limit and key.
type Refusal struct {
	RetryAfterS int64 // -1: no wait helps
	Degraded    decision.Degraded
	RequestID   []byte // nil: none
}

// Note takes in a refusal of an enforcing limit. It does not allocate for a key that it knows.
func (r *Talkers) Note(c *limits.Check, now time.Duration, why Refusal) {
	hash := maphash.Bytes(r.seed, c.Key)
	s := &r.shards[hash%refusedShards]
	s.mu.Lock()
	sliceAt(s.minute[:], int64(now/minuteSlice)).count(hash, c)
	sliceAt(s.hour[:], int64(now/hourSlice)).count(hash, c)
	d := s.denials[string(c.Key)]
	if d != nil && now < d.end {
		d.more++
		s.mu.Unlock()
		return
	}
	switch {
	case r.log == nil:
		s.mu.Unlock()
		return
	case d == nil && len(s.denials) == mostDenials || r.room.Add(-1) < 0:
		s.mu.Unlock()
		r.leftOut.Add(1)
		return
	}
	var over denial
	if d == nil {
		d = new(denial)
		s.denials[string(c.Key)] = d
	} else {
		over = *d
	}
	*d = denial{limit: c.Limit.Name, key: c.Who(), first: now, end: now + denialPeriod(c.Rate)}
	key := d.key
	s.mu.Unlock()
	r.summary(&over, now)
	r.first(c, key, &why)
}

// denialPeriod is for how long refusals of a key are counted before the log says how many: the limit's window, within
// bounds.
func denialPeriod(r *limits.Rate) time.Duration {
	window := time.Duration(min(r.WindowUS, denialAtMost.Microseconds())) * time.Microsecond
	return max(window, denialAtLeast)
}

func (r *Talkers) first(c *limits.Check, key string, why *Refusal) {
	words := []any{"limit", c.Limit.Name, "key", key, "status", decision.Limited.Status()}
	if why.RetryAfterS >= 0 {
		words = append(words, "retry_after", why.RetryAfterS)
	}
	if why.Degraded != decision.AsUsual {
		words = append(words, "degraded", why.Degraded.String())
	}
	if why.RequestID != nil {
		words = append(words, "request_id", string(why.RequestID))
	}
	r.log.Info("refused", words...)
}

// summary is the line for what followed a first refusal, if anything did.
func (r *Talkers) summary(d *denial, now time.Duration) {
	if d.more > 0 {
		r.log.Info("refused again", "limit", d.limit, "key", d.key, "times", d.more, "within", (min(now, d.end) - d.first).Round(time.Second).String())
	}
}

// sweep says what is over, and what there was no room for.
func (r *Talkers) sweep(now time.Duration) {
	if r.log == nil {
		return
	}
	r.room.Store(min(refusalRoom, max(0, r.room.Load())+refusalRate))
	for _, d := range r.take(func(d *denial) bool { return now >= d.end }) {
		r.summary(d, now)
	}
	if now-r.told >= leftOutToldIn {
		r.tellLeftOut(now)
	}
}

// take forgets those that are over.
func (r *Talkers) take(over func(*denial) bool) (taken []*denial) {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for key, d := range s.denials {
			if over(d) {
				taken = append(taken, d)
				delete(s.denials, key)
			}
		}
		s.mu.Unlock()
	}
	return taken
}

func (r *Talkers) tellLeftOut(now time.Duration) {
	if n := r.leftOut.Swap(0); n > 0 {
		r.log.Info("refused others, too many keys to name them; see authz top", "times", n)
	}
	r.told = now
}

// End says what is known of those that are not over: by name of those that were refused most, as many as there is room
// for at once.
func (r *Talkers) End(now time.Duration) {
	if r.log == nil {
		return
	}
	left := r.take(func(*denial) bool { return true })
	slices.SortFunc(left, func(a, b *denial) int { return cmp.Compare(b.more, a.more) })
	for i, d := range left {
		if i < refusalRoom {
			r.summary(d, now)
		} else {
			r.leftOut.Add(d.more)
		}
	}
	r.tellLeftOut(now)
}

// Watch sweeps as long as ctx lasts.
func (r *Talkers) Watch(ctx context.Context) {
	ticks := time.NewTicker(everySweep)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
			r.sweep(monotonic.Now())
		}
	}
}
