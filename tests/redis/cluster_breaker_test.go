package redis

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// A breaker opens in front of the node that hangs, and of no other: whose bucket is elsewhere is decided
// there.
func TestABreakerOpensInFrontOfTheNodeThatHangs(t *testing.T) {
	c := rig.StartCluster(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+c.URL(), "--redis-timeout=1s")
	ask := a.Checker()
	master := c.Masters(t)[1]
	var here, elsewhere []string // clients
	for i := 0; len(here) < 3 || len(elsewhere) < 3; i++ {
		ip := fmt.Sprint("203.0.113.", i)
		if c.OwnerOf(t, c.SlotOf("{ip="+ip+"}")) == master {
			here = append(here, ip)
		} else {
			elsewhere = append(elsewhere, ip)
		}
	}
	check := func(ip, want string) {
		t.Helper()
		rig.Same(t, ip+" "+ask.Check(t, "GET /deny", []string{"X-Real-IP: " + ip}, "X-Authz-Degraded"), ip+" "+want)
	}
	check(here[0], "200")
	check(elsewhere[0], "200")
	master.Signal(t, syscall.SIGSTOP)
	for range 3 {
		check(here[0], "503 X-Authz-Degraded=deny")
		check(elsewhere[0], "200") // does not make up for it: another server has answered
	}
	a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 0 state{state="open"} 1`)
	for range 30 {
		check(here[1], "503 X-Authz-Degraded=deny")
		check(elsewhere[1], "200")
	}
	rig.Same(t, a.Metrics(t, `authz_store_errors_total{kind="breaker"}`, `authz_store_errors_total{kind="timeout"}`),
		"authz_store_errors_total{kind=\"breaker\"} 30\nauthz_store_errors_total{kind=\"timeout\"} 3\n")
	if _, body := a.Get(t, "/readyz"); body != "serving\nstore: redis, no answer: timeout\n" {
		t.Errorf("/readyz says %s", body)
	}
	master.Signal(t, syscall.SIGCONT)
	a.Await(t, "the breaker is closed: Redis answers\" server="+master.Addr)
	check(here[0], "200")
	check(elsewhere[0], "200")
	a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 1 state{state="open"} 0`)
	if n := strings.Count(a.Logged(), "the breaker is "); n != 2 {
		t.Errorf("%d turns in the log, want 2", n)
	}
}

// When its replica has taken over from a master that is dead, nobody asks that one: its breaker closes.
func TestABreakerOfANodeThatIsReplacedCloses(t *testing.T) {
	c := rig.StartCluster(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+c.URL(), "--redis-timeout=1s")
	ask := a.Checker()
	master := c.Masters(t)[1]
	ip := ""
	for i := 0; ip == "" || c.OwnerOf(t, c.SlotOf("{ip="+ip+"}")) != master; i++ {
		ip = fmt.Sprint("203.0.113.", i)
	}
	check := func() string { return ask.Check(t, "GET /deny", []string{"X-Real-IP: " + ip}, "X-Authz-Degraded") }
	rig.Same(t, check(), "200")
	c.Patience(t, "2000")
	master.Signal(t, syscall.SIGSTOP)
	master.Gone = true
	rig.Await(t, "breaker that is open", func() bool {
		check()
		return strings.Contains(a.Logged(), "the breaker is open")
	})
	rig.Await(t, "replica that has taken over", func() bool { return check() == "200" })
	a.Await(t, "the breaker is closed: nobody asks this server any more\" server="+master.Addr)
	a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 1 state{state="open"} 0`)
}

// A cluster of which no node answers is found out by its first requests, and by nobody after that.
func TestABreakerAnswersForAClusterThatNeverCame(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=redis://127.0.0.1:"+rig.FreePort(t)+",127.0.0.1:"+rig.FreePort(t), "--redis-timeout=20s")
	ask := a.Checker()
	for range 10 {
		rig.Same(t, ask.Check(t, "GET /allow", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=allow")
	}
	if n := a.Counted(t, `authz_store_errors_total{kind="breaker"}`); n < 7 { // who reads the epoch may be among the three
		t.Errorf("%d of kind breaker, want 7 at least", n)
	}
}

// Nodes that say that they may not tell who has the slots do not close the breaker that another has opened,
// which hangs: the next look would wait for it again. When they all say so, it is an answer.
func TestABreakerThatOneNodeHasOpenedIsNotClosedByTheOthers(t *testing.T) {
	const denied = "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"
	var nodes []*rig.Puppet
	var addrs []string
	for range 4 {
		n := rig.StartPuppet(t, rig.Admits)
		n.Own(denied)
		nodes, addrs = append(nodes, n), append(addrs, "127.0.0.1:"+n.Port)
	}
	refuses, hangs := nodes[0], nodes[3]
	hangs.Own("")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=redis://"+strings.Join(addrs, ","))
	ask := a.Checker()
	deny := func() { rig.Same(t, ask.Check(t, "GET /deny", nil, "X-Authz-Degraded"), "503 X-Authz-Degraded=deny") }
	opened := func() bool { return strings.Contains(a.Logged(), "the breaker is open") }
	rig.Await(t, "breaker that is open", func() bool { deny(); return opened() })
	looks := refuses.Looked()
	rig.Await(t, "looks of the probes", func() bool { return refuses.Looked() >= looks+4 })
	deny()
	a.BreakerMetrics(t, `openings_total 1 state{state="closed"} 0 state{state="open"} 1`)
	hangs.Own(denied)
	a.Await(t, "the breaker is closed: Redis answers\" server=cluster")
	rig.Await(t, "refusal by the account", func() bool { deny(); return a.Counted(t, `authz_store_errors_total{kind="noperm"}`) > 0 })
}

// A doctor looks at each master of a cluster.
func TestADoctorLooksAtEachMaster(t *testing.T) {
	c := rig.StartCluster(t)
	examine := func(args ...string) string {
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(rig.Doctor(t, c.URL(), args...), "REDIS")
	}
	well := strings.ReplaceAll(strings.TrimPrefix(rig.Healthy, "exit 0\n"), "standalone", "cluster")
	rig.Diagnosis(t, examine("--limits=../limits/examples/quickstart.toml"), "exit 0\n"+strings.Repeat(well, 3)+"ok       limits      2, which one call can decide\n")
	several := rig.LimitsFile(t, `
[limit.login]
key       = ["ip"]
algorithm = "sliding_window"
rate      = "5/m"
[limit.plan]
key       = ["header:X-API-Key"]
missing   = "ip"
algorithm = "token_bucket"
rate      = "5/m"
[limit.site]
key       = ["ip"]
algorithm = "fixed_window"
rate      = "100/m"
`)
	rig.Diagnosis(t, examine("--limits="+several), "exit 0\n"+strings.Repeat(well, 3)+"ok       limits      3, on 2 identities: "+
		"a request that meets several of these may need a call in each of their slots, to peek and then to charge\n")
	for _, m := range c.Masters(t) {
		if keys := m.Keys(context.Background(), "*").Val(); len(keys) != 0 {
			t.Errorf("it leaves %v behind", keys)
		}
	}
	one := rig.Doctor(t, "redis://"+c.Masters(t)[0].Addr+"?cluster=TRUE") // as the store reads it
	rig.Diagnosis(t, regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(one, "REDIS"), "exit 0\n"+strings.Repeat(well, 3))
	c.Masters(t)[1].ConfigSet(context.Background(), "maxmemory", "1")
	got := examine()
	if !strings.HasPrefix(got, "exit 1\n") || strings.Count(got, "wrong ") != 2 || strings.Count(got, "\nwrong    scripts     "+rig.AllScripts+": Redis is full") != 1 ||
		strings.Count(got, "\nok       scripts     charge and refuse: "+rig.AllScripts+"\n") != 2 {
		t.Errorf("got\n%s", got)
	}
	// a single server that is taken for a cluster
	_, port := startRedisAt(t)
	rig.Same(t, rig.Doctor(t, "redis://127.0.0.1:"+port+"?cluster=true"),
		"exit 1\nwrong    connection  REDIS: the server is no node of a cluster, want one address and a URL without cluster: 127.0.0.1:"+port+": ERR This instance has cluster support disabled\n")
}
