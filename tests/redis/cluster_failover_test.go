package redis

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// A master dies, or hangs, under load. Whose bucket is elsewhere notices nothing; the others meet errors
// until the replica has taken over, and then their counts go on.
//
// Redis replicates after it has answered. What is charged in the last instant before a master dies may
// be forgotten, and is admitted once more; so the load on that master rests until its replica has all.
func TestAMasterOfAClusterIsReplaced(t *testing.T) {
	c := rig.StartCluster(t)
	c.Patience(t, "2000")
	turns := new(turns)
	s, err := redisstore.Open(redisstore.Options{URL: c.URL(), Timeout: 5 * time.Second, Turned: turns.turned})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, loss := range []struct {
		how string
		sig syscall.Signal
	}{{"killed", syscall.SIGKILL}, {"stopped", syscall.SIGSTOP}} {
		dead := c.Loses(t, s, loss.how, loss.sig)
		// No other breaker has opened, and that one is nobody's concern any more.
		rig.Await(t, "breakers that are closed", func() bool { return s.Unreachable() == nil })
		if got := turns.take(); got != fmt.Sprintf("map[%s:0]", dead.Addr) && (got != "map[]" || loss.how == "killed") {
			t.Errorf("%s: openings of breakers that have not closed: %s, want 0 of %s", loss.how, got, dead.Addr)
		}
	}
}

// turns is which breakers have opened, and whether they are open.
type turns struct {
	mu   sync.Mutex
	open map[string]int
}

func (t *turns) turned(server string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[string]int{}
	}
	if err != nil && err != redisstore.ErrRetired {
		t.open[server]++
	} else {
		t.open[server]--
	}
}

func (t *turns) take() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := fmt.Sprint(t.open)
	clear(t.open)
	return text
}
