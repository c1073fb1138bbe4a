package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"authz/internal/monotonic"
	"authz/internal/plainjson"
	"authz/limits"
)

// sliceKeys is how many keys a slice of time knows, in each of refusedShards shards.
const sliceKeys = 64

const (
	minuteSlice = 10 * time.Second
	hourSlice   = 5 * time.Minute
)

// A slice is the refusals of a slice of time, by key: a Space-Saving sketch (Metwally, Agrawal, El Abbadi, "Efficient
// computation of frequent and top-k elements in data streams", 2005). A key that it does not know takes the place of
// the one with the fewest, and that number with it. So a number is never too small, and too large by no more than was
// taken over; and who has more than 1/sliceKeys of a slice's refusals is in it.
type slice struct {
	at     int64 // which slice of time
	n      int   // keys in use
	hashes [sliceKeys]uint64
	keys   [sliceKeys]sliceKey
}

type sliceKey struct {
	limit       string
	key         []byte // its identity
	times, over int64  // over of them may be of others
}

// sliceAt is the slice for a time, begun anew if it was of an earlier one.
func sliceAt(ring []slice, at int64) *slice {
	s := &ring[uint64(at)%uint64(len(ring))]
	if s.at != at {
		s.at, s.n = at, 0
	}
	return s
}

// count counts a refusal.
func (s *slice) count(hash uint64, c *limits.Check) {
	for i, h := range s.hashes[:s.n] {
		if h == hash {
			s.keys[i].times++
			return
		}
	}
	i, taken := s.n, int64(0)
	if i == sliceKeys {
		i = s.least()
		taken = s.keys[i].times
	} else {
		s.n++
	}
	k := &s.keys[i]
	s.hashes[i] = hash
	*k = sliceKey{limit: c.Limit.Name, key: append(k.key[:0], c.Identity()...), times: taken + 1, over: taken}
}

func (s *slice) least() (least int) {
	for i := range s.keys[:s.n] {
		if s.keys[i].times < s.keys[least].times {
			least = i
		}
	}
	return least
}

// A refusedKey is how often a key was refused: at least, and at most.
type refusedKey struct {
	Limit   string `json:"limit"`
	Key     string `json:"key"` // its identity, or "everybody"
	Refused int64  `json:"refused_at_least"`
	AtMost  int64  `json:"refused_at_most"`
}

// top is the n keys that were refused most in the last minute or hour, as the slices of it know them: a minute is 60 to
// 70 seconds, an hour 60 to 65 minutes.
func (r *refusedKeys) top(span, now time.Duration, n int) []refusedKey {
	var all []refusedKey
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		if span == time.Hour {
			all = append(all, sum(s.hour[:], int64(now/hourSlice))...)
		} else {
			all = append(all, sum(s.minute[:], int64(now/minuteSlice))...)
		}
		s.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b refusedKey) int {
		return cmp.Or(cmp.Compare(b.Refused, a.Refused), cmp.Compare(b.AtMost, a.AtMost), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

// sum adds up the slices until at. A key that a full slice does not know may have been there as often as the least.
func sum(times []slice, at int64) []refusedKey {
	type numbers struct{ times, over, unsure int64 }
	byKey := map[[2]string]*numbers{}
	var fullest int64 // what all may have been in
	for i := range times {
		s := &times[i]
		if s.at > at || s.at <= at-int64(len(times)) {
			continue
		}
		least := int64(0)
		if s.n == sliceKeys {
			least = s.keys[s.least()].times
			fullest += least
		}
		for _, k := range s.keys[:s.n] {
			id := [2]string{k.limit, string(k.key)}
			if byKey[id] == nil {
				byKey[id] = new(numbers)
			}
			byKey[id].times += k.times
			byKey[id].over += k.over
			byKey[id].unsure += least
		}
	}
	var all []refusedKey
	for id, n := range byKey {
		key := refusedKey{Limit: id[0], Key: id[1], Refused: n.times - n.over, AtMost: n.times + fullest - n.unsure}
		if key.Key == "" {
			key.Key = limits.Everybody
		}
		all = append(all, key)
	}
	return all
}

// topSpans are the spans that can be asked for.
var topSpans = map[string]time.Duration{"1m": time.Minute, "1h": time.Hour}

const mostTop = refusedShards * sliceKeys

// getTop answers [{"limit":...}].
func (a *admin) getTop(w http.ResponseWriter, r *http.Request) {
	span, known := topSpans[cmp.Or(r.FormValue("span"), "1m")]
	n, err := strconv.Atoi(cmp.Or(r.FormValue("n"), "10"))
	switch {
	case !known:
		answerJSON(w, nil, usageError{fmt.Errorf("span = %q, want 1m or 1h", r.FormValue("span"))})
	case err != nil || n < 1 || n > mostTop:
		answerJSON(w, nil, usageError{fmt.Errorf("n = %q, want 1 to %d", r.FormValue("n"), mostTop)})
	default:
		answerJSON(w, append([]refusedKey{}, a.refused.top(span, monotonic.Now(), n)...), nil)
	}
}

type topCmd struct {
	adminFlags
	Span string `help:"How far to look back: ${enum}." enum:"1m,1h" default:"1m"`
	N    int    `short:"n" help:"How many keys." default:"10" placeholder:"N"`
	JSON bool   `name:"json" help:"Write them as JSON."`
}

// Help is what --help says beside the flags.
func (*topCmd) Help() string {
	return `The keys that a running authz serve has refused most in the last minute or hour, of all limits that enforce. Each instance
knows its own. Numbers are what is sure; where there were too many keys to count each, they may be larger.`
}

func (f *topCmd) Validate() error {
	if f.N < 1 || f.N > mostTop {
		return fmt.Errorf("--n=%d: want 1 to %d", f.N, mostTop)
	}
	return nil
}

// Run shows who is refused.
func (f *topCmd) Run(c *console) error {
	var keys []refusedKey
	if err := f.ask(http.MethodGet, "/top", url.Values{"span": {f.Span}, "n": {strconv.Itoa(f.N)}}, &keys); err != nil {
		return c.said("top", err)
	}
	if f.JSON {
		return plainjson.NewEncoder(c.out).Encode(keys)
	}
	if len(keys) == 0 {
		fmt.Fprintf(c.out, "nobody was refused in the last %s\n", f.Span)
		return nil
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "refused\tlimit\tkey")
	for _, k := range keys {
		fmt.Fprintf(table, "%d\t%s\t%s\n", k.Refused, k.Limit, k.Key)
	}
	return table.Flush()
}
