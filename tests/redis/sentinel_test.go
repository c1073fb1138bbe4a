package redis

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// A master that has become a replica, and kept its connections, says READONLY: nothing is charged, and
// the next connection goes to the new master.
func TestAReplicaThatWasTheMasterIsLeft(t *testing.T) {
	ctx := context.Background()
	old, oldPort := startRedisAt(t)
	next, nextPort := startRedisAt(t)
	s := rig.StartSentinels(t, 1, oldPort)[0]
	r := rig.OpenRedisURL(t, sentinelURL([]*rig.Sentinel{s}, ""), 10*time.Second)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(r, c)+" "+fmt.Sprint(rig.Left(t, rig.OpenRedis(t, old), c)), "admitted 4")

	s.Do(ctx, "sentinel", "remove", "main")
	if err := old.Do(ctx, "replicaof", "127.0.0.1", nextPort).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.Do(ctx, "sentinel", "monitor", "main", "127.0.0.1", nextPort, "1").Err(); err != nil {
		t.Fatal(err)
	}
	rig.Same(t, rig.KindOf(r, c)+" "+rig.KindOf(r, c), "readonly admitted")
	rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, next), c)), "4")
}

// Sentinels hear of a failover one after the other. Who knows of the latest is believed, and who says
// nothing is not waited for.
func TestTheSentinelThatKnowsMostIsBelieved(t *testing.T) {
	ctx := context.Background()
	_, oldPort := startRedisAt(t)
	next, nextPort := startRedisAt(t)
	stale := rig.StartSentinels(t, 2, oldPort, "sentinel config-epoch main 3")
	knowing := rig.StartSentinels(t, 1, nextPort, "sentinel config-epoch main 7")
	silent := rig.StartSentinels(t, 1, nextPort, "sentinel config-epoch main 9")
	rig.SignalTo(t, silent[0].Cmd, syscall.SIGSTOP)
	for range 10 {
		r := rig.OpenRedisURL(t, sentinelURL([]*rig.Sentinel{stale[0], silent[0], knowing[0], stale[1]}, ""), 10*time.Second)
		if err := r.Ping(ctx); err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
	if n := next.Calls(t, "eval"); n != 1 { // the first sends the text of the script
		t.Errorf("%d pings began at the new master, want 1", n)
	}
	rig.Same(t, fmt.Sprint(next.Calls(t, "evalsha")), "10")
}

func TestSentinelsThatCannotTellSayWhy(t *testing.T) {
	_, port := startRedisAt(t)
	s := rig.StartSentinels(t, 1, port, "requirepass w4tchword")
	says := func(kind, want, url string) {
		t.Helper()
		r := rig.OpenRedisURL(t, url, 10*time.Second)
		err := r.Ping(context.Background())
		if text := fmt.Sprint(err); redisstore.Kind(err) != kind || !strings.HasPrefix(text, want) || strings.Contains(text, "w4tch") {
			t.Errorf("%s\ngot  %s %v\nwant %s %s", url, redisstore.Kind(err), err, kind, want)
		}
	}
	at := "redis://" + s[0].Addr
	who := "no Sentinel says where the master is: the Sentinel " + s[0].Addr
	says("", "<nil>", at+"?master=main&sentinel_password=w4tchword")
	says("other", redisstore.ErrNoMaster.Error()+": the Sentinel "+s[0].Addr+` knows no master "mine"`, at+"?master=mine&sentinel_password=w4tchword")
	says("noauth", who+": NOAUTH ", at+"?master=main")
	says("noauth", who+": WRONGPASS ", at+"?master=main&sentinel_password=w4tchdog")
	says("network", "no Sentinel says where the master is: the Sentinel 127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused",
		"redis://127.0.0.1:1?master=main")
	says("network", "no Sentinel says where the master is: the Sentinel 127.0.0.", "redis://127.0.0.1:1,127.0.0.2:1?master=main")
}
