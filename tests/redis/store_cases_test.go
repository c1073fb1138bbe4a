package redis

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
	"authz/redisscripts"
	"authz/tests/rig"
)

const midnightUS = 1767225600e6

// askOf returns a closure that sends a request to all limits, on one key each, and says what the
// client sees: "4" is admitted with 4 left by the last limit, "no5" is refused with Retry-After 5.
func askOf(t *testing.T, s store.Store) func(atS float64, cost int64, ls ...*limits.Limit) string {
	take := rig.StoreTaker(s)
	return func(atS float64, cost int64, ls ...*limits.Limit) string {
		t.Helper()
		var checks []limits.Check
		for _, l := range ls {
			checks = append(checks, rig.Check(l, "u", cost))
		}
		results := take(t, midnightUS+int64(atS*1e6), checks, false)
		if rig.Admitted(checks, results) {
			return fmt.Sprint(results[len(results)-1].Remaining)
		}
		var waitUS int64
		for _, r := range results {
			if r.WaitUS < 0 {
				return "never"
			}
			waitUS = max(waitUS, r.WaitUS)
		}
		if waitUS == 0 {
			t.Errorf("at %v: refused without a wait", atS)
		}
		return fmt.Sprint("no", (waitUS+999999)/1e6)
	}
}

// eachSecond asks at every second from from to to.
func eachSecond(ask func(float64, int64, ...*limits.Limit) string, from, to int, l *limits.Limit) string {
	var said []string
	for s := from; s <= to; s++ {
		said = append(said, ask(float64(s), 1, l))
	}
	return strings.Join(said, " ")
}

// C063, C076
func TestHitsDoNotPushTheResetAway(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		l := rig.NewLimit(t, "api", "fixed_window", 5, 10e6, 0)
		got := eachSecond(askOf(t, s), 0, 29, l)
		rig.Same(t, got, strings.TrimSpace(strings.Repeat("4 3 2 1 0 no5 no4 no3 no2 no1 ", 3)))
	})
}

// C060: steady 500 a second under 3000 a second, to the last microsecond of each window.
func TestTheLastMicrosecondBelongsToItsWindow(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, l := askOf(t, s), rig.NewLimit(t, "api", "fixed_window", 3000, 1e6, 0)
		for window := range 3 {
			for i := range 499 {
				rig.Same(t, ask(float64(window)+float64(i)*0.002, 1, l), fmt.Sprint(2999-i))
			}
			rig.Same(t, ask(float64(window)+0.999999, 1, l), "2500")
		}
	})
}

// C064: only what was admitted was counted, so a raise is worth all of itself.
func TestRefusedHitsAreNotCounted(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for _, algorithm := range []string{"fixed_window", "sliding_window", "sliding_counter"} {
			ask := askOf(t, s)
			count := func(n int, l *limits.Limit) (in int) {
				for range n {
					if !strings.HasPrefix(ask(1, 1, l), "no") {
						in++
					}
				}
				return in
			}
			ten, twenty := rig.NewLimit(t, "api", algorithm, 10, 3600e6, 0), rig.NewLimit(t, "api", algorithm, 20, 3600e6, 0)
			rig.Same(t, fmt.Sprint(algorithm, count(50, ten), count(15, twenty)), algorithm+"10 10")
		}
	})
}

// C065, C066
func TestHitsOfOneInstantAndOneMicrosecondApartAreAllCounted(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, l := askOf(t, s), rig.NewLimit(t, "api", "sliding_window", 5, 10e6, 0)
		var got []string
		for range 12 {
			got = append(got, ask(0, 1, l))
		}
		rig.Same(t, strings.Join(got, " "), "4 3 2 1 0 no10 no10 no10 no10 no10 no10 no10")
		zcard(t, s, l, 5)

		two := rig.NewLimit(t, "two", "sliding_window", 2, 10e6, 0)
		rig.Same(t, ask(0, 1, two)+ask(0.000001, 1, two)+ask(10, 1, two)+ask(10.000001, 1, two)+ask(10.000001, 1, two), "1000no10")
	})
}

// zcard checks how many members the log of a limit has in Redis.
func zcard(t *testing.T, s testStore, l *limits.Limit, want int64) {
	t.Helper()
	if s.server == nil {
		return
	}
	if n := s.server.ZCard(context.Background(), string(rig.Check(l, "u", 1).Key)).Val(); n != want {
		t.Errorf("%d members, want %d", n, want)
	}
}

// C067
func TestWhatHasLeftTheWindowIsNotCounted(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, l := askOf(t, s), rig.NewLimit(t, "api", "sliding_window", 3, 10e6, 0)
		rig.Same(t, ask(0, 1, l)+ask(1, 1, l)+ask(2, 1, l)+ask(12.5, 1, l), "2102")
		zcard(t, s, l, 1)
	})
}

// C069: 100 a second for a minute, where 100 a minute are allowed.
func TestAFloodIsNeitherStoredNorPunished(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, l, in := askOf(t, s), rig.NewLimit(t, "api", "sliding_window", 100, 60e6, 0), 0
		for i := range 6000 {
			if !strings.HasPrefix(ask(float64(i)/100, 1, l), "no") {
				in++
			}
		}
		rig.Same(t, fmt.Sprint(in, " ", ask(119.99, 1, l)), "100 99")
		zcard(t, s, l, 1)
	})
}

// C070, C071
func TestACostThatIsTooHighTakesNothing(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for _, algorithm := range rig.Algorithms {
			burst := int64(10)
			if algorithm == "leaky_bucket" {
				burst = 9
			}
			ask, l := askOf(t, s), rig.NewLimit(t, "api", algorithm, 10, 1000e6, burst)
			rig.Same(t, algorithm+" "+ask(0, 11, l), algorithm+" never")
			if s.server != nil && s.server.Exists(context.Background(), string(rig.Check(l, "u", 1).Key)).Val() != 0 {
				t.Errorf("%s: the key was created", algorithm)
			}
			rig.Same(t, ask(0, 8, l), "2")
			if got := ask(0, 5, l); !strings.HasPrefix(got, "no") {
				t.Errorf("%s: %s, want a refusal", algorithm, got)
			}
			rig.Same(t, ask(0, 1, l), "1")
		}
	})
}

// C073, C075, C078
func TestFractionsOfTokensAndSecondsAreKept(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask := askOf(t, s)
		l := rig.NewLimit(t, "a", "token_bucket", 1, 1e6, 1)
		rig.Same(t, ask(0, 1, l)+ask(0.6, 1, l)+ask(0.999999, 1, l)+ask(1, 1, l), "0no1no10")
		l = rig.NewLimit(t, "b", "token_bucket", 1, 100e6, 5)
		rig.Same(t, ask(0, 1, l)+ask(99, 1, l), "43") // 4.99 before, 3.99 after
		l = rig.NewLimit(t, "c", "token_bucket", 10, 3e6, 10)
		rig.Same(t, ask(0, 10, l)+ask(0, 10, l)+ask(3, 10, l), "0no30") // exactly 3 s, and not 4
		l = rig.NewLimit(t, "d", "sliding_window", 1, 10e6, 0)
		rig.Same(t, ask(0, 1, l)+ask(0.1, 1, l), "0no10")
	})
}

// C079: a delayed call that is stamped earlier fills nothing up.
func TestALateCallDoesNotRefill(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, l := askOf(t, s), rig.NewLimit(t, "api", "token_bucket", 5, 1e6, 5)
		rig.Same(t, ask(10, 5, l)+ask(11, 4, l)+ask(10, 1, l)+ask(11, 1, l), "010no1")
	})
}

// C082, C084, C087
func TestARefillLosesNothing(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask := askOf(t, s)
		l := rig.NewLimit(t, "a", "token_bucket", 10, 1e6, 10)
		rig.Same(t, ask(0, 10, l), "0")
		for _, at := range []float64{0.5, 1, 1.5, 2} {
			rig.Same(t, ask(at, 6, l)+ask(at, 5, l), "no10")
		}
		l = rig.NewLimit(t, "b", "token_bucket", 1, 10e6, 5)
		rig.Same(t, ask(0, 5, l)+" "+ask(25, 1, l)+" "+ask(25, 1, l)+" "+ask(25, 1, l)+" "+ask(29, 1, l)+" "+ask(30, 1, l), "0 1 0 no5 no1 0")
		l = rig.NewLimit(t, "c", "token_bucket", 10, 30e6, 10)
		rig.Same(t, eachSecond(ask, 0, 10, l), "9 8 7 7 6 5 5 4 3 3 2")
		l = rig.NewLimit(t, "d", "token_bucket", 1, 1e6, 5)
		rig.Same(t, ask(0, 1, l)+ask(86400, 5, l)+ask(86400, 1, l), "40no1")
	})
}

// C090
func TestRemainingStaysAtZeroAndTheResetRunsOn(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		take, l := rig.StoreTaker(s), rig.NewLimit(t, "api", "fixed_window", 2, 60e6, 0)
		got := ""
		for at := range int64(4) {
			got += fmt.Sprint(rig.Rows(take(t, midnightUS+at*1e6, []limits.Check{rig.Check(l, "u", 1)}, false)))
		}
		rig.Same(t, got, "[[1 1 0 60000000]][[1 0 0 59000000]][[0 0 58000000 58000000]][[0 0 57000000 57000000]]")
	})
}

// C091
func TestALimitIsNotChargedForWhatAnotherRefuses(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask := askOf(t, s)
		minute, half := rig.NewLimit(t, "minute", "fixed_window", 10, 60e6, 0), rig.NewLimit(t, "half", "fixed_window", 30, 1800e6, 0)
		var got []string
		for _, at := range []float64{0, 60, 120, 180} {
			in, last := 0, ""
			for range 31 {
				if last = ask(at, 1, minute, half); !strings.HasPrefix(last, "no") {
					in++
				}
			}
			left := rig.StoreTaker(s)(t, midnightUS+int64(at)*1e6, []limits.Check{rig.Check(half, "u", 1)}, true)[0].Remaining
			got = append(got, fmt.Sprint(in, " used ", 30-left, " ", last))
		}
		rig.Same(t, strings.Join(got, ", "), "10 used 10 no60, 10 used 20 no60, 10 used 30 no1680, 0 used 30 no1620")
	})
}

// C093
func TestTheOrderOfLimitsDoesNotMatter(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		for _, name := range []string{"a", "b"} {
			ask := askOf(t, s)
			ls := []*limits.Limit{rig.NewLimit(t, name+"m", "fixed_window", 2, 60e6, 0), rig.NewLimit(t, name+"s", "fixed_window", 1, 1e6, 0)}
			minute := ls[0]
			if name == "b" {
				ls[0], ls[1] = ls[1], ls[0]
			}
			var got []bool
			for _, at := range []float64{0, 0, 1} {
				got = append(got, !strings.HasPrefix(ask(at, 1, ls...), "no"))
			}
			rig.Same(t, fmt.Sprint(got, ask(2, 1, minute)), "[true false true]no58")
		}
	})
}

// C094: at 19:00 with the day's quota spent.
func TestTheLongestWaitIsTold(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask := askOf(t, s)
		hour, day := rig.NewLimit(t, "hour", "fixed_window", 10, 3600e6, 0), rig.NewLimit(t, "day", "fixed_window", 50, 86400e6, 0)
		rig.Same(t, ask(19*3600, 3, hour)+" "+ask(0, 50, day), "7 0")
		for range 20 {
			rig.Same(t, ask(19*3600, 1, hour, day), "no18000")
		}
		rig.Same(t, ask(19*3600, 1, hour), "6")
	})
}

// C095: large numbers stay numbers in what Redis stores.
func TestStoredNumbersAreWholeText(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.OpenRedis(t, r)
	ask := askOf(t, s)
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "fixed_window", "sliding_counter"} {
		l := rig.NewLimit(t, "api", algorithm, 7, 366*86400e6, 200)
		ask(0.123456, 7, l)
		text := r.Get(context.Background(), string(rig.Check(l, "u", 1).Key)).Val()
		if !regexp.MustCompile(`^[0-9]+(:[0-9]+)+$`).MatchString(text) {
			t.Errorf("%s: stored %q, want whole numbers", algorithm, text)
		}
	}
}

// An override turns where a day of its limit's time zone lets its own window turn: from the limits file
// to the store. Midnight of +05:45 is 18:15 of UTC, and its hours begin at a quarter past.
func TestAnOverrideOfAnotherWindowTurnsByTheSameClock(t *testing.T) {
	set := loadLimits(t, "authz", "[limit.day]\nkey = ['ip']\nalgorithm = 'fixed_window'\nutc_offset = '+05:45'\nrate = '2/d'\n[override.day.'192.0.2.1']\nrate = '2/h'\n"+
		"[limit.hour]\nkey = ['ip']\nalgorithm = 'fixed_window'\nutc_offset = '+05:45'\nrate = '2/h'\n[override.hour.'192.0.2.1']\nrate = '2/d'\n")
	bothStores(t, func(t *testing.T, s testStore) {
		take := rig.StoreTaker(s)
		try := func(ip, want string) {
			t.Helper()
			var m limits.Match
			set.Match(&limits.Attrs{IP: netip.MustParseAddr(ip)}, &m)
			rig.Same(t, fmt.Sprint(rig.Rows(take(t, midnightUS, m.Checks, false))), want)
		}
		const day, hour = "[1 1 0 65700000000]", "[1 1 0 900000000]" // to 18:15, to 00:15
		try("192.0.2.1", "["+hour+" "+day+"]")
		try("192.0.2.2", "["+day+" "+hour+"]")
	})
}

// The scripts' version stands in every key: new scripts that read the state of others have another.
func TestKeysHaveTheVersionOfTheScripts(t *testing.T) {
	set := loadLimits(t, "mine", "[limit.a]\nkey = ['host']\nalgorithm = 'fixed_window'\nrate = '1/s'\n")
	var m limits.Match
	set.Match(&limits.Attrs{Host: []byte("h")}, &m)
	rig.Same(t, string(m.Checks[0].Key), "mine:"+redisscripts.Version+":{host=h}:a:fw")
}

func loadLimits(t *testing.T, keyPrefix, text string) *limits.Set {
	t.Helper()
	file := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := limits.Load(keyPrefix, file)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// C102: another algorithm is another key, in any order of roll-outs.
func TestAnotherAlgorithmStartsAfreshAndBothWork(t *testing.T) {
	bothStores(t, func(t *testing.T, s testStore) {
		ask, got := askOf(t, s), ""
		for range 2 {
			for _, algorithm := range rig.Algorithms {
				got += ask(0, 1, rig.NewLimit(t, "api", algorithm, 3, 60e6, 3))
			}
		}
		rig.Same(t, got, "2322212111") // a leaky bucket serves one and holds three
	})
}
