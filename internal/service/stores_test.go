package service

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/internal/testkit"
)

func TestATimeoutThatLeavesNoTimeToHoldIsWarnedOf(t *testing.T) {
	check := func(toml string, timeout time.Duration, want string) {
		t.Helper()
		s := serviceFor(t, toml)
		log, out := testkit.Log()
		s.Log, s.outage.Log = log, slog.New(slog.DiscardHandler) // Redis is not there
		o := Options{MemoryBuckets: 1, Redis: redisstore.Options{URL: "unix://" + filepath.Join(t.TempDir(), "none"), Timeout: timeout}}
		if err := s.openStores(&o); err != nil {
			t.Fatal(err)
		}
		s.Stores.close()
		if out.String() != want {
			t.Errorf("--redis-timeout=%v: logged\n%swant\n%s", timeout, out, want)
		}
	}
	const warning = "level=WARN msg=\"--redis-timeout leaves no time to hold the answers of leaky buckets, which nginx awaits for 1s: want less than 950ms\" redis_timeout=950ms\n"
	check(leaky, 950*time.Millisecond, warning)
	check(leaky, 949*time.Millisecond, "")
	check(leaky+"\nmode = \"shadow\"", 950*time.Millisecond, "")
	check(tokens, 950*time.Millisecond, "")
}
