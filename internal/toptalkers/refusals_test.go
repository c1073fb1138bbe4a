package toptalkers

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"authz/internal/decision"
	"authz/internal/monotonic"
	"authz/internal/testkit"
	"authz/limits"
)

// refusable is a check of a limit by the minute.
func refusable(t testing.TB, limit, key string, windowUS int64) *limits.Check {
	t.Helper()
	set := testkit.Limits(t, fmt.Sprintf(`
		[limit.%s]
		key       = ["header:name"]
		missing   = "share"
		algorithm = "fixed_window"
		rate      = "5/%dms"`, limit, windowUS/1000))
	c, err := set.CheckOf(limit, key, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

const minuteUS = 60_000_000

// C153: ten thousand refusals of a key are one line, and one for the others.
func TestRefusalsOfAKeyAreTwoLinesAWindow(t *testing.T) {
	log, out := testkit.Log()
	r := New(log)
	says := func(want string) {
		t.Helper()
		if got := out.String(); got != want {
			t.Errorf("logged\n%swant\n%s", got, want)
		}
		out.Reset()
	}
	why := Refusal{RetryAfterS: 60, RequestID: []byte("0123abcd")}
	c := refusable(t, "login", "ann", minuteUS)
	for i := range 10_000 {
		r.Note(c, time.Duration(i)*time.Millisecond, why)
	}
	says("level=INFO msg=refused limit=login key=\"header:name=ann\" status=429 retry_after=60 request_id=0123abcd\n")
	r.sweep(59 * time.Second)
	says("")
	r.sweep(60 * time.Second)
	says("level=INFO msg=\"refused again\" limit=login key=\"header:name=ann\" times=9999 within=1m0s\n")
	r.sweep(120 * time.Second)
	says("")

	// The next window; one alone has no summary. Nobody has swept meanwhile.
	why = Refusal{RetryAfterS: -1, Degraded: decision.ByLocal}
	r.Note(c, 121*time.Second, why)
	says("level=INFO msg=refused limit=login key=\"header:name=ann\" status=429 degraded=local\n")
	r.Note(c, 122*time.Second, why)
	r.Note(c, 190*time.Second, why)
	says("level=INFO msg=\"refused again\" limit=login key=\"header:name=ann\" times=1 within=1m0s\n" +
		"level=INFO msg=refused limit=login key=\"header:name=ann\" status=429 degraded=local\n")
	r.Note(c, 191*time.Second, why)
	r.End(200 * time.Second)
	says("level=INFO msg=\"refused again\" limit=login key=\"header:name=ann\" times=1 within=10s\n")

	// A second's limit is told of by the minute, a day's by the hour.
	second, day := refusable(t, "second", "bob", 1_000_000), refusable(t, "day", "bob", 1440*minuteUS)
	for at := 300 * time.Second; at < 300*time.Second+time.Hour; at += time.Second {
		r.Note(second, at, why)
		r.Note(day, at, why)
		r.sweep(at)
	}
	if got := strings.Count(out.String(), "limit=second"); got != 2*60-1 {
		t.Errorf("%d lines of a limit by the second in an hour, want 119", got)
	}
	if got := strings.Count(out.String(), "limit=day"); got != 1 {
		t.Errorf("%d lines of a limit by the day in an hour, want 1", got)
	}
}

// An attack from a million addresses is a hundred lines, and ten a second.
func TestRefusalsOfManyKeysDoNotFloodTheLog(t *testing.T) {
	log, out := testkit.Log()
	r := New(log)
	c := refusable(t, "login", "x", minuteUS)
	why := Refusal{RetryAfterS: 1}
	const all = 100_000
	for i := range all {
		c.Key = fmt.Appendf(c.Key[:0], "authz:v1:{header:name=%d}:login:fw", i)
		r.Note(c, time.Second, why)
	}
	if got := strings.Count(out.String(), "msg=refused "); got != refusalRoom {
		t.Errorf("%d lines, want %d", got, refusalRoom)
	}
	out.Reset()
	r.sweep(2 * time.Second)
	for i := range 50 {
		c.Key = fmt.Appendf(c.Key[:0], "authz:v1:{header:name=more-%d}:login:fw", i)
		r.Note(c, 2*time.Second, why)
	}
	if got := strings.Count(out.String(), "msg=refused "); got != refusalRate {
		t.Errorf("%d lines in the second after, want %d", got, refusalRate)
	}
	out.Reset()
	r.sweep(70 * time.Second)
	if want := fmt.Sprintf("level=INFO msg=\"refused others, too many keys to name them; see authz top\" times=%d\n", all+50-refusalRoom-refusalRate); out.String() != want {
		t.Errorf("logged\n%swant\n%s", out, want)
	}
	for i := range r.shards {
		if n := len(r.shards[i].denials); n != 0 {
			t.Errorf("%d keys are kept", n)
		}
	}
}

// Nor is the end a flood: those that were refused most are named, and all are counted.
func TestTheEndNamesThoseThatWereRefusedMost(t *testing.T) {
	log, out := testkit.Log()
	r := New(log)
	c := refusable(t, "day", "x", 1440*minuteUS)
	why := Refusal{RetryAfterS: 1}
	const keys = 150
	for i := range keys {
		r.room.Store(refusalRoom)
		c.Key = fmt.Appendf(c.Key[:0], "authz:v1:{header:name=%d}:day:fw", i)
		for range 2 + i {
			r.Note(c, time.Second, why)
		}
	}
	out.Reset()
	r.End(time.Minute)
	said := strings.Split(strings.TrimSpace(out.String()), "\n")
	rest := 0
	for i := range keys - refusalRoom {
		rest += 1 + i
	}
	if len(said) != refusalRoom+1 || !strings.Contains(said[0], fmt.Sprintf(`key="header:name=%d" times=%d within`, keys-1, keys)) ||
		!strings.HasSuffix(said[refusalRoom], fmt.Sprintf("see authz top\" times=%d", rest)) {
		t.Errorf("%d lines, the first %s, the last %s", len(said), said[0], said[len(said)-1])
	}
	out.Reset()
	if r.End(time.Minute); out.Len() > 0 {
		t.Errorf("again: %s", out)
	}
}

// Who has a large share of the refusals is always named, never with fewer than there were, and what is sure never is
// more than there were.
func TestTheBusiestKeysAreNamedWhateverElseComes(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		r := New(nil)
		c := refusable(t, "login", "x", minuteUS)
		truth := map[string]int64{}
		for range 30_000 {
			n := random.IntN(20)
			if random.IntN(3) > 0 {
				n = 20 + random.IntN(50_000)
			}
			c.Key = fmt.Appendf(c.Key[:0], "authz:v1:{header:name=%d}:login:fw", n)
			key := string(c.Identity())
			truth[key]++
			r.Note(c, time.Duration(random.Int64N(int64(50*time.Second))), Refusal{})
		}
		seen := map[string]bool{}
		for _, k := range r.Top(time.Minute, 50*time.Second, Most) {
			seen[k.Key] = true
			if n := truth[k.Key]; n < k.Refused || n > k.AtMost {
				t.Errorf("seed %d: %s was refused %d times, is said to have been %d to %d times", seed, k.Key, n, k.Refused, k.AtMost)
			}
		}
		for n := range 20 {
			if key := fmt.Sprintf("header:name=%d", n); !seen[key] {
				t.Errorf("seed %d: %s is not named, with %d refusals", seed, key, truth[key])
			}
		}
	}
}

func TestAMinuteAndAnHourEnd(t *testing.T) {
	r := New(nil)
	c := refusable(t, "login", "ann", minuteUS)
	for at := time.Duration(0); at < 10*time.Minute; at += time.Second {
		r.Note(c, at, Refusal{})
	}
	check := func(span, now time.Duration, want string) {
		t.Helper()
		if got := fmt.Sprint(r.Top(span, now, 10)); got != want {
			t.Errorf("in %v until %v: %s, want %s", span, now, got, want)
		}
	}
	check(time.Minute, 10*time.Minute-1, "[{login header:name=ann 70 70}]")
	check(time.Minute, 10*time.Minute, "[{login header:name=ann 60 60}]")
	check(time.Minute, 10*time.Minute+50*time.Second, "[{login header:name=ann 10 10}]")
	check(time.Minute, 11*time.Minute, "[]")
	check(time.Hour, 10*time.Minute, "[{login header:name=ann 600 600}]")
	check(time.Hour, 65*time.Minute, "[{login header:name=ann 300 300}]")
	check(time.Hour, 70*time.Minute, "[]")
}

func BenchmarkARefusalIsNoted(b *testing.B) {
	r := New(nil)
	c := refusable(b, "login", "ann", minuteUS)
	why := Refusal{}
	b.ReportAllocs()
	for b.Loop() {
		r.Note(c, monotonic.Now(), why)
	}
}
