package redisstore

import (
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd that waits in vain asks by pings whether Redis hangs: half a second without any answer opens the breaker, and no
// client has caused that. A ping that is answered in time does not, nor does a request.
func TestACrowdThatWaitsInVainAsksWhetherRedisHangs(t *testing.T) {
	check := func(takes time.Duration, answer error, want string, between ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			b := newBreaker(func(ctx context.Context) error {
				select {
				case <-time.After(takes):
					return answer
				case <-ctx.Done():
					return errLate
				case <-time.After(50 * time.Millisecond):
					return errLate
				}
			}, func(error) {})
			defer b.stop()
			for range 60 { // a crowd is late every 10 ms
				b.ask("crowded")
				for _, comes := range between {
					b.ask(comes)
				}
				time.Sleep(10 * time.Millisecond)
			}
			err := b.take(func() error { return nil })
			if got := fmt.Sprintf("%q by clients %v", Kind(err), err != nil && ClientCanCause(err)); got != want {
				t.Errorf("a ping that takes %v: %s, want %s", takes, got, want)
			}
		})
	}
	check(0, nil, `"" by clients false`)
	check(0, errOOM, `"" by clients false`)
	check(40*time.Millisecond, nil, `"" by clients false`)
	check(60*time.Millisecond, nil, `"breaker" by clients false`)
	check(60*time.Millisecond, nil, `"" by clients false`, "ok")
	check(60*time.Millisecond, nil, `"" by clients false`, "oom")
	check(time.Hour, nil, `"breaker" by clients false`)
	check(0, io.EOF, `"breaker" by clients false`)
}

// Whoever began before the latest failure that counts may begin a doubt too, and the next answer ends that.
func TestADoubtHearsTheNextAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := closedBreaker(func(error) {}) // its pings are never answered
		defer b.stop()
		old, _ := b.begin()
		b.ask("timeout")
		b.ask("ok")
		b.learn(old, errCrowded)
		b.ask("ok")
		time.Sleep(time.Second)
		if err := b.cause(); err != nil {
			t.Errorf("open by %v, want closed: Redis has answered a request since", err)
		}
	})
}

// A breaker that clients may have opened is no longer theirs once Redis has been silent while nobody asked it.
func TestARedisThatStaysSilentIsNoLongerTheClientsDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := closedBreaker(func(error) {})
		defer b.stop()
		for range 3 {
			b.ask("pool")
		}
		if err := b.take(nil); !ClientCanCause(err) {
			t.Errorf("%v, want one that clients can cause", err)
		}
		time.Sleep(1100 * time.Millisecond)
		if err := b.take(nil); Kind(err) != "breaker" || ClientCanCause(err) {
			t.Errorf("%v, want one that clients cannot cause", err)
		}
	})
}
