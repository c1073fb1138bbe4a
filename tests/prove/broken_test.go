package prove

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authz/limits"
	"authz/tests/rig"
)

// A limiter says whether a request is admitted, and else for how many seconds it is refused.
type limiter func(ctx context.Context) (admitted bool, retryAfterS int64)

// startLimiter is a site with a limiter of its own.
func startLimiter(t *testing.T, l limiter) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		admitted, retryAfterS := l(r.Context())
		if !admitted {
			w.Header().Set("Retry-After", strconv.FormatInt(retryAfterS, 10))
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// isBroken wants a limiter that says it is a sliding window of fifty in four seconds to be caught.
func isBroken(t *testing.T, lasts string, l limiter) {
	t.Helper()
	p := prove(t, "--url="+startLimiter(t, l), "--limit=broken", "--algorithm=sliding_window", "--rate=50/4s", "--for="+lasts)
	if p.Verdict != "broken" || !strings.Contains(p.Why, " were admitted within ") {
		t.Errorf("%+v, want it broken by what was admitted", p)
	}
}

// Twice the limit are admitted around the end of a key's seconds. That a lost EXPIRE leaves a key for good is
// no matter here: another follows.
func TestACounterWithAKeyForEachWindowIsCaught(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	isBroken(t, "10s", func(ctx context.Context) (bool, int64) {
		key := fmt.Sprint("hits:", time.Now().Unix()/4)
		n := r.Incr(ctx, key).Val()
		r.Expire(ctx, key, 4*time.Second)
		return n <= 50, 1
	})
}

// The members are times, and what comes at the same time is one member. The clock ticks in seconds, so that
// this is sure to happen.
func TestALogWhoseMembersCollideIsCaught(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	isBroken(t, "2s", func(ctx context.Context) (admitted bool, _ int64) {
		now := time.Now().Truncate(time.Second).UnixMicro()
		take := func(tx *redis.Tx) error {
			if err := tx.ZRemRangeByScore(ctx, "log", "-inf", fmt.Sprint(now-4e6)).Err(); err != nil {
				return err
			}
			n, err := tx.ZCard(ctx, "log").Result()
			if admitted = n < 50; err != nil || !admitted {
				return err
			}
			_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
				pipe.ZAdd(ctx, "log", redis.Z{Score: float64(now), Member: now})
				pipe.Expire(ctx, "log", 4*time.Second)
				return nil
			})
			return err
		}
		err := error(redis.TxFailedErr)
		for err == redis.TxFailedErr {
			err = r.Watch(ctx, take, "log")
		}
		return admitted && err == nil, 1
	})
}

// Two nodes hand the script their own clocks, which differ by more than a window. What one has counted is
// of another time for the other.
func TestNodesWithClocksApartAreCaught(t *testing.T) {
	t.Parallel()
	s, turns := rig.OpenRedis(t, rig.StartRedis(t)), atomic.Int64{}
	l := rig.NewLimit(t, "apart", "sliding_window", 50, 4e6, 0)
	isBroken(t, "2s", func(ctx context.Context) (bool, int64) {
		nowUS := time.Now().UnixMicro() + turns.Add(1)%2*60e6
		results, err := s.Take(ctx, nowUS, []limits.Check{rig.Check(l, "k", 1)}, false, nil)
		return err == nil && results[0].Allowed, 1
	})
}

// A key that the crowd found half used has another user, who may have come before the retries too.
func TestARetryOnAKeyThatOthersUseProvesNothing(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	url := startLimiter(t, func(context.Context) (bool, int64) { return n.Add(1) <= 3, 1 })
	p := prove(t, "--url="+url, "--limit=shared", "--algorithm=sliding_window", "--rate=5/m", "--for=3s")
	rig.Same(t, p.Verdict+": "+p.Why, "unclear: a Retry-After of 1s was too short, but the crowd was admitted 3 of the 5 that an unused key admits: somebody else may use the key")
}

// This one holds, and the same window is caught if it says that it is over too soon.
func TestARetryAfterThatIsTooShortIsCaught(t *testing.T) {
	t.Parallel()
	s := rig.OpenRedis(t, rig.StartRedis(t))
	says := func(key string, windowS, retryAfterS int64, want string, args ...string) {
		t.Helper()
		l := rig.NewLimit(t, "soon", "sliding_window", 5, windowS*1e6, 0)
		url := startLimiter(t, func(ctx context.Context) (bool, int64) {
			results, err := s.Take(ctx, 0, []limits.Check{rig.Check(l, key, 1)}, false, nil)
			return err == nil && results[0].Allowed, retryAfterS
		})
		p := prove(t, append(args, "--url="+url, "--limit=soon", "--algorithm=sliding_window", fmt.Sprintf("--rate=5/%ds", windowS))...)
		if got := p.Verdict + ": " + p.Why; !strings.HasPrefix(got, want) {
			t.Errorf("Retry-After %d: %+v, want %s", retryAfterS, p, want)
		}
	}
	var both sync.WaitGroup
	both.Go(func() {
		says("short", 4, 1, "broken: a Retry-After of 1s was too short: nothing else was sent, and the request was refused again", "--for=3s")
	})
	both.Go(func() {
		says("right", 2, 2, "held: no more than 5 were admitted within any 2s, where sliding_window, 5/2s promises 5 at most")
	})
	both.Wait()
}

// A bucket that drains as it says, but holds nobody, lets a burst through to what it should protect.
func TestALeakyBucketThatDoesNotHoldIsCaught(t *testing.T) {
	t.Parallel()
	s := rig.OpenRedis(t, rig.StartRedis(t))
	l := rig.NewLimit(t, "leaky", "leaky_bucket", 5, 1e6, 9)
	url := startLimiter(t, func(ctx context.Context) (bool, int64) {
		results, err := s.Take(ctx, 0, []limits.Check{rig.Check(l, "k", 1)}, false, nil)
		return err == nil && results[0].Allowed, 1
	})
	p := prove(t, "--url="+url, "--limit=leaky", "--algorithm=leaky_bucket", "--rate=5/s", "--burst=9")
	if p.Verdict != "broken" || !strings.Contains(p.Why, " that were admitted were answered within ") {
		t.Errorf("%+v, want it broken by answers that were not held", p)
	}
}
