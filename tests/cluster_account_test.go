package tests

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"authz/internal/store/redisstore"
)

// clusterAccount is the rules of the README's account, with what it needs more in a cluster.
func clusterAccount(t *testing.T) (rules []any) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^ *user authz on >PASSWORD (.*)$`).FindStringSubmatch(readme(t))
	more := regexp.MustCompile("in a cluster it needs `([^`]*)` too").FindStringSubmatch(readme(t))
	if line == nil || more == nil {
		t.Fatal("README.md has no account, or not what it needs in a cluster")
	}
	for _, rule := range strings.Fields(line[1] + " " + more[1]) {
		rules = append(rules, rule)
	}
	return rules
}

// account makes an account on all nodes, and returns the URL to use it with.
func (c *redisCluster) account(t *testing.T, name string, rules ...any) string {
	t.Helper()
	for _, n := range c.nodes {
		if err := n.Do(context.Background(), append([]any{"acl", "setuser", name, "on", "resetpass", ">pass"}, rules...)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	return "redis://" + name + ":pass@" + strings.TrimPrefix(c.url(), "redis://")
}

func theReadmesAccount(t *testing.T, c *redisCluster, _ redisstore.Redis) {
	rules := clusterAccount(t)
	s := openRedisURL(t, c.account(t, "enough", rules...), 10*time.Second)
	if err := s.Load(context.Background()); err != nil {
		t.Error(err)
	}
	if err := s.Ping(context.Background()); err != nil {
		t.Error(err)
	}
	if text, err := redisstore.Get(context.Background(), s, "authz:v1:epoch"); text != "" || err != nil {
		t.Error(text, err)
	}
	l := startLoad(t, 8, s, &load{users: []string{"a", "b", "c", "d"}, limits: roomy(t), several: true, beside: "e"})
	slot := c.slotOf("{a}")
	from, to := c.ownerOf(t, slot), c.masters(t)[0]
	if to == from {
		to = c.masters(t)[1]
	}
	c.move(t, slot, from, to, func() { l.goesOn(40) })
	for kind := range l.kindsOf(40) {
		same(t, kind, "admitted")
	}
	for kind, n := range l.kinds() {
		same(t, kind, "admitted")
		same(t, fmt.Sprint(n > 40), "true")
	}

	// An account that may not ask how new the news of a node is has to believe all alike.
	same(t, fmt.Sprint(c.nodes[0].Do(context.Background(), "acl", "dryrun", "enough", "cluster", "info").Val()), "OK")
	older := openRedisURL(t, c.account(t, "older", append(rules, "-cluster|info")...), 10*time.Second)
	same(t, kindOf(older, check(roomy(t)[0], "a", 1)), "admitted")
	const lost = "\nunknown  cluster     how new the news of a node is could not be looked at, want +cluster|info: " +
		"one that was cut off is believed like the others about who has which slots, and clients may be counted at both for seconds\n" +
		"ok       account     may do all that is needed with keys that begin with authz:\n"
	for name, lines := range map[string]int{"older": 3, "enough": 0} { // of each master
		code, printed := authz(t, "doctor", "--redis-timeout=20s", "--redis="+c.account(t, name))
		if code != 0 || strings.Count(printed, lost) != lines {
			t.Errorf("doctor of %s: %d\n%s\nwant %d times%s", name, code, printed, lines, lost)
		}
	}

	blind := openRedisURL(t, c.account(t, "blind", append(rules, "-cluster|slots")...), 10*time.Second)
	err := blind.Load(context.Background())
	if redisstore.Kind(err) != "noperm" || !strings.Contains(err.Error(), "cluster|slots") {
		t.Errorf("%v, want an error that names cluster|slots", err)
	}
	code, printed := authz(t, "doctor", "--redis="+c.account(t, "blind"))
	if code != 1 || !strings.HasPrefix(printed, "wrong    connection ") || !strings.Contains(printed, "cluster|slots") {
		t.Errorf("doctor: %d\n%s", code, printed)
	}
	code, printed = authz(t, "doctor", "--redis="+c.account(t, "silent", append(rules, "-asking")...))
	if code != 1 || strings.Count(printed, "\nwrong    account     may not do all that is needed, want +asking\n") != 3 {
		t.Errorf("doctor: %d\n%s", code, printed)
	}
	same(t, kindOf(blind, check(roomy(t)[0], "a", 1)), "noperm")

	// An account that is taken away is told as such to all that share calls.
	for _, n := range c.nodes {
		n.Do(context.Background(), "acl", "setuser", "enough", "resetpass")
		n.Do(context.Background(), "client", "kill", "user", "enough")
	}
	got := atOnce(64, 4, func(i int) string { return kindOf(s, check(roomy(t)[0], fmt.Sprint(i), 1)) })
	same(t, fmt.Sprint(got), "map[noauth:256]")
}

// The commands take a cluster like any Redis.
func theCommandsTakeACluster(t *testing.T, c *redisCluster, _ redisstore.Redis) {
	for _, n := range c.masters(t) {
		n.ScriptFlush(context.Background())
	}
	code, printed := authz(t, "scripts", "load", "--redis="+c.url())
	if code != 0 || !strings.HasPrefix(printed, "take") {
		t.Errorf("scripts load: %d %s", code, printed)
	}
	limit := limitsFile(t, "[limit.all]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"2/366d\"\n"+
		"[limit.total]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"30/366d\"\n")
	calls := c.calls(t, "eval")
	a := startAuthz(t, "--limits="+limit, "--redis="+c.url(), "--redis-timeout=20s")
	ask, answers := a.checker(), map[string]int{}
	for i := range 60 {
		answers[ask.check(t, "GET /", []string{fmt.Sprint("X-Real-IP: 203.0.113.", i%20)}, "X-Authz-Limit")]++
	}
	same(t, fmt.Sprint(answers, c.calls(t, "eval")-calls), "map[200 X-Authz-Limit=all:25 200 X-Authz-Limit=total:5 429 X-Authz-Limit=total:30] 0")
	if status, body := a.get(t, "/readyz"); status != 200 || body != "serving\nstore: redis, answers\n" {
		t.Errorf("/readyz: %d %q", status, body)
	}
	for line := range strings.Lines(a.metrics(t, "authz_store_errors_total")) {
		if !strings.HasSuffix(line, " 0\n") {
			t.Error(line)
		}
	}
	a.await(t, `msg=serving limits=2 store=redis redis=`+c.url())
}
