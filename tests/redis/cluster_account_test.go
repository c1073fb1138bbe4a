package redis

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

func theReadmesAccount(t *testing.T, c *rig.RedisCluster, _ redisstore.Redis) {
	rules := rig.ClusterAccount(t)
	s := rig.OpenRedisURL(t, c.Account(t, "enough", rules...), 10*time.Second)
	if err := s.Load(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	if text, err := redisstore.Get(context.Background(), s, "authz:v1:epoch"); text != "" || err != nil {
		t.Error(text, err)
	}
	l := rig.StartLoad(t, 8, s, &rig.Load{Users: []string{"a", "b", "c", "d"}, Limits: roomy(t), Several: true, Beside: "e"})
	slot := c.SlotOf("{a}")
	from, to := c.OwnerOf(t, slot), c.Masters(t)[0]
	if to == from {
		to = c.Masters(t)[1]
	}
	c.Move(t, slot, from, to, func() { l.GoesOn(40) })
	for kind := range l.KindsOf(40) {
		rig.Same(t, kind, "admitted")
	}
	for kind, n := range l.Kinds() {
		rig.Same(t, kind, "admitted")
		rig.Same(t, fmt.Sprint(n > 40), "true")
	}

	// An account that may not ask how new the news of a node is has to believe all alike.
	rig.Same(t, fmt.Sprint(c.Nodes[0].Do(context.Background(), "acl", "dryrun", "enough", "cluster", "info").Val()), "OK")
	older := rig.OpenRedisURL(t, c.Account(t, "older", append(rules, "-cluster|info")...), 10*time.Second)
	rig.Same(t, rig.KindOf(older, rig.Check(roomy(t)[0], "a", 1)), "admitted")
	const lost = "\nunknown  cluster     how new the news of a node is could not be looked at, want +cluster|info: " +
		"one that was cut off is believed like the others about who has which slots, and clients may be counted at both for seconds\n" +
		"ok       account     may do all that is needed with keys that begin with authz:\n"
	for name, lines := range map[string]int{"older": 3, "enough": 0} { // of each master
		code, printed := rig.Authz(t, "doctor", "--redis-timeout=20s", "--redis="+c.Account(t, name))
		if code != 0 || strings.Count(printed, lost) != lines {
			t.Errorf("doctor of %s: %d\n%s\nwant %d times%s", name, code, printed, lines, lost)
		}
	}

	blind := rig.OpenRedisURL(t, c.Account(t, "blind", append(rules, "-cluster|slots")...), 10*time.Second)
	err := blind.Load(context.Background())
	if redisstore.Kind(err) != "noperm" || !strings.Contains(err.Error(), "cluster|slots") {
		t.Errorf("%v, want an error that names cluster|slots", err)
	}
	code, printed := rig.Authz(t, "doctor", "--redis="+c.Account(t, "blind"))
	if code != 1 || !strings.HasPrefix(printed, "wrong    connection ") || !strings.Contains(printed, "cluster|slots") {
		t.Errorf("doctor: %d\n%s", code, printed)
	}
	code, printed = rig.Authz(t, "doctor", "--redis="+c.Account(t, "silent", append(rules, "-asking")...))
	if code != 1 || strings.Count(printed, "\nwrong    account     may not do all that is needed, want +asking\n") != 3 {
		t.Errorf("doctor: %d\n%s", code, printed)
	}
	rig.Same(t, rig.KindOf(blind, rig.Check(roomy(t)[0], "a", 1)), "noperm")

	// An account that is taken away is told as such to all that share calls.
	for _, n := range c.Nodes {
		n.Do(context.Background(), "acl", "setuser", "enough", "resetpass")
		n.Do(context.Background(), "client", "kill", "user", "enough")
	}
	got := rig.AtOnce(64, 4, func(i int) string { return rig.KindOf(s, rig.Check(roomy(t)[0], fmt.Sprint(i), 1)) })
	rig.Same(t, fmt.Sprint(got), "map[noauth:256]")
}

// The commands take a cluster like any Redis.
func theCommandsTakeACluster(t *testing.T, c *rig.RedisCluster, _ redisstore.Redis) {
	for _, n := range c.Masters(t) {
		n.ScriptFlush(context.Background())
	}
	code, printed := rig.Authz(t, "scripts", "load", "--redis="+c.URL())
	if code != 0 || !strings.HasPrefix(printed, "take") {
		t.Errorf("scripts load: %d %s", code, printed)
	}
	limit := rig.LimitsFile(t, "[limit.all]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"2/366d\"\n"+
		"[limit.total]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"30/366d\"\n")
	calls := c.Calls(t, "eval")
	a := rig.StartAuthz(t, "--limits="+limit, "--redis="+c.URL(), "--redis-timeout=20s")
	ask, answers := a.Checker(), map[string]int{}
	for i := range 60 {
		answers[ask.Check(t, "GET /", []string{fmt.Sprint("X-Real-IP: 203.0.113.", i%20)}, "X-Authz-Limit")]++
	}
	rig.Same(t, fmt.Sprint(answers, c.Calls(t, "eval")-calls), "map[200 X-Authz-Limit=all:25 200 X-Authz-Limit=total:5 429 X-Authz-Limit=total:30] 0")
	if status, body := a.Get(t, "/readyz"); status != 200 || body != "serving\nstore: redis, answers\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	for line := range strings.Lines(a.Metrics(t, "authz_store_errors_total")) {
		if !strings.HasSuffix(line, " 0\n") {
			t.Error(line)
		}
	}
	a.Await(t, `msg=serving limits=2 store=redis redis=`+c.URL())
}
