package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"authz/internal/replay/accesslog"
	"authz/internal/testkit"
	"authz/limits"
)

// bursts is a log in which 60 addresses come in bursts, some of them more than others.
func bursts(random *rand.Rand) string {
	var b strings.Builder
	nowMS := int64(1791640536000)
	for range 1000 {
		nowMS += int64(random.ExpFloat64() * 30)
		client := int(random.ExpFloat64() * 12)
		for range 1 + random.IntN(1+12/(1+client)) {
			fmt.Fprintf(&b, "%d.%03d 203.0.113.%d /\n", nowMS/1000, nowMS%1000, min(59, client))
			nowMS += int64(random.IntN(3))
		}
	}
	return b.String()
}

// limitOf is a limits file with one limit.
func limitOf(algorithm, rate string, burst *int64, cost int) string {
	text := fmt.Sprintf("[defaults]\nhold_max = \"900ms\"\n[limit.a]\nkey = [\"ip\"]\nalgorithm = %q\nrate = %q\ncost = %d\n", algorithm, rate, cost)
	if burst != nil {
		text += fmt.Sprintf("burst = %d\n", *burst)
	}
	return text
}

// refusedKeys replays a log, and says how many keys were refused something, and how many there are.
func refusedKeys(t *testing.T, toml, log string) (refused, all int64) {
	t.Helper()
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	r := newRun(Options{Limits: testkit.Limits(t, toml), Format: format})
	if _, err := r.replay([]Log{{"log", strings.NewReader(log)}}); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.policies[0].limits[0].keys.rows {
		if all++; row.refused > 0 {
			refused++
		}
	}
	return refused, all
}

// Whatever the limit is that suggestions are asked for, replaying one refuses no more keys than it may, and
// with a number that is smaller by one it refuses more.
func TestASuggestionIsTheSmallestThatWouldDo(t *testing.T) {
	random, tried := rand.New(rand.NewPCG(1, 2)), 0
	for _, own := range []struct {
		algorithm, rate string
		burst           *int64
		cost            int
	}{{"sliding_window", "60/s", nil, 1}, {"token_bucket", "70/s", new(int64(20)), 1}, {"fixed_window", "1800/7s", nil, 3},
		{"sliding_counter", "80/s", nil, 2}, {"token_bucket", "400/7s", new(int64(15)), 1}, {"leaky_bucket", "300/s", new(int64(5)), 1}} {
		log := bursts(random)
		for _, keys := range []Share{0, 20_000, 300_000} {
			format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(Options{Limits: testkit.Limits(t, limitOf(own.algorithm, own.rate, own.burst, own.cost)), Format: format,
				Suggest: &Suggest{Keys: keys}}, []Log{{"log", strings.NewReader(log)}})
			if err != nil {
				t.Fatal(err)
			}
			suggestions := r.Policy.Limits[0].Suggestions
			if want := map[bool]int{false: 5, true: 6}[own.burst != nil]; len(suggestions) != want {
				t.Fatalf("%+v, want %d", suggestions, want)
			}
			for _, s := range suggestions {
				if _, err := tryLimits(t, limitOf(s.Algorithm, s.Rate, s.Burst, own.cost)); (err == nil) != (s.Not == "") {
					t.Errorf("%+v: authz check says %v", s, err)
				}
				if s.Not != "" {
					continue
				}
				refused, all := refusedKeys(t, limitOf(s.Algorithm, s.Rate, s.Burst, own.cost), log)
				may := all * int64(keys) / int64(Whole)
				if refused > may || refused != s.Refused {
					t.Errorf("%+v: %+v refuses %d of %d keys, want %d at most", own, s, refused, all, may)
				}
				if smaller, ok := oneLess(s, own.cost); ok {
					tried++
					if refused, _ := refusedKeys(t, smaller, log); refused <= may {
						t.Errorf("%+v: with one less than %+v it refuses %d of %d keys, want more than %d", own, s, refused, all, may)
					}
				}
			}
		}
	}
	if tried < 75 {
		t.Errorf("%d of 99 suggestions were tried with one less, want most", tried)
	}
}

// oneLess is the limits file with a number that is smaller by one; not ok if that has no room for the cost.
func oneLess(s Suggestion, cost int) (toml string, ok bool) {
	if s.Number == "count" {
		count, window, _ := strings.Cut(s.Rate, "/")
		var n int64
		fmt.Sscan(count, &n)
		return limitOf(s.Algorithm, fmt.Sprintf("%d/%s", n-1, window), s.Burst, cost), s.Burst != nil && n > 1 || n > int64(cost)
	}
	burst := *s.Burst - 1
	size := burst
	if s.Algorithm == "leaky_bucket" {
		size++
	}
	return limitOf(s.Algorithm, s.Rate, &burst, cost), size >= int64(cost)
}

func TestASuggestionSaysWhyItCannotBeUsed(t *testing.T) {
	log := strings.Repeat("1791640536 203.0.113.9 /\n", 10_001)
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	check := func(rate string, headroom Share, want string) {
		t.Helper()
		r, err := Run(Options{Limits: testkit.Limits(t, limitOf("fixed_window", rate, nil, 1)), Format: format, Suggest: &Suggest{Headroom: headroom}},
			[]Log{{"log", strings.NewReader(log)}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range r.Policy.Limits[0].Suggestions {
			got += fmt.Sprintf("%s %s %d: %s\n", s.Algorithm, s.Rate, s.Smallest, s.Not)
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", rate, got, want)
		}
	}
	check("5/m", 100_000, `token_bucket 5/m 10001: 
leaky_bucket 5/m 10000: the last would be held for 36h40m12s, and hold_max is 900ms
fixed_window 11002/m 10001: 
sliding_window  0: more than 10000, which is the most that it counts
sliding_counter 11002/m 10001: 
`)
	check("1/366d", 0, `token_bucket  0: more than 284 cannot be counted exactly
leaky_bucket  0: more than 284 cannot be counted exactly
fixed_window 10001/366d 10001: 
sliding_window  0: more than 10000, which is the most that it counts
sliding_counter  0: more than 284 cannot be counted exactly
`)
	check("0/s", 0, `fixed_window 10001/s 10001: 
sliding_window  0: more than 10000, which is the most that it counts
sliding_counter 10001/s 10001: 
`)
	check("unlimited", 0, "")
}

// Who has numbers of their own asks nothing of the limit's.
func TestAnOverriddenKeyIsNoneThatASuggestionIsFor(t *testing.T) {
	toml := limitOf("fixed_window", "1/m", nil, 1) + "[override.a.\"203.0.113.9\"]\nrate = \"100/m\"\n"
	format, err := accesslog.ParseFormat("$msec $remote_addr $request_uri")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(Options{Limits: testkit.Limits(t, toml), Format: format, Suggest: &Suggest{}},
		[]Log{{"log", strings.NewReader(strings.Repeat("1791640536 203.0.113.9 /\n", 50) + "1791640536 203.0.113.8 /\n1791640536 203.0.113.8 /\n")}})
	if err != nil {
		t.Fatal(err)
	}
	l := r.Policy.Limits[0]
	if l.Keys != 2 || l.Overridden != 50 || l.Refused != 1 || l.Suggestions[2].Rate != "2/m" {
		t.Errorf("%+v, want 2 keys, 50 by the override, and 2/m to be enough", l)
	}
}

func TestAShareIsAPercentage(t *testing.T) {
	check := func(text, want string) {
		t.Helper()
		var s Share
		got := ""
		if err := s.UnmarshalText([]byte(text)); err != nil {
			got = err.Error()
		} else {
			coded, _ := s.MarshalJSON()
			got = fmt.Sprint(s, " ", string(coded))
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	check("0.1%", "0.1% 0.001")
	check("0%", "0% 0")
	check("100%", "100% 1")
	check("12.3456%", "12.3456% 0.123456")
	check("150.5%", "150.5% 1.505")
	for _, bad := range []string{"", "%", "1", "0.1", "-1%", "+1%", "1.00001%", ".5%", "x%", "99999999%"} {
		check(bad, fmt.Sprintf("%q, want a percentage with 4 digits after the point at most, such as 0.1%%", bad))
	}
	for _, c := range []struct{ n, headroom, want int64 }{{10, 0, 10}, {10, 200_000, 12}, {11, 200_000, 14}, {1, 1, 2}, {7, 1_000_000, 14}, {math.MaxInt64 / 16, 2_000_000, beyond}} {
		if got := Share(c.headroom).more(c.n); got != c.want {
			t.Errorf("%d and %v more: %d, want %d", c.n, Share(c.headroom), got, c.want)
		}
	}
}

// The peaks stay in bounds whatever is asked for.
func TestADemandDoesNotOverflow(t *testing.T) {
	rate := limits.NewRate(limits.TokenBucket, 1, 366*86400e6, new(int64(1)))
	var d demand
	for i := range int64(1000) {
		d.add(&limits.Check{Limit: &limits.Limit{Algorithm: limits.TokenBucket}, Rate: rate, Cost: 1<<53 - 1}, newRoomiest(rate), 1e15+i)
	}
	if d.peaks != [measures]int64{beyond, beyond, beyond, beyond} {
		t.Errorf("%d, want all beyond what can be counted", d.peaks)
	}
}
