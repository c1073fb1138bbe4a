package tests

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// A breaker opens in front of the node that hangs, and of no other: whose bucket is elsewhere is decided
// there.
func TestABreakerOpensInFrontOfTheNodeThatHangs(t *testing.T) {
	c := startCluster(t)
	a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis="+c.url(), "--redis-timeout=1s")
	ask := a.checker()
	master := c.masters(t)[1]
	var here, elsewhere []string // clients
	for i := 0; len(here) < 3 || len(elsewhere) < 3; i++ {
		ip := fmt.Sprint("203.0.113.", i)
		if c.ownerOf(t, c.slotOf("{ip="+ip+"}")) == master {
			here = append(here, ip)
		} else {
			elsewhere = append(elsewhere, ip)
		}
	}
	check := func(ip, want string) {
		t.Helper()
		same(t, ip+" "+ask.check(t, "GET /deny", []string{"X-Real-IP: " + ip}, "X-Authz-Degraded"), ip+" "+want)
	}
	check(here[0], "200")
	check(elsewhere[0], "200")
	master.signal(t, syscall.SIGSTOP)
	for range 3 {
		check(here[0], "503 X-Authz-Degraded=deny")
		check(elsewhere[0], "200") // does not make up for it: another server has answered
	}
	a.breakerMetrics(t, `openings_total 1 state{state="closed"} 0 state{state="open"} 1`)
	for range 30 {
		check(here[1], "503 X-Authz-Degraded=deny")
		check(elsewhere[1], "200")
	}
	same(t, a.metrics(t, `authz_store_errors_total{kind="breaker"}`, `authz_store_errors_total{kind="timeout"}`),
		"authz_store_errors_total{kind=\"breaker\"} 30\nauthz_store_errors_total{kind=\"timeout\"} 3\n")
	if _, body := a.get(t, "/readyz"); body != "serving\nstore: redis, no answer: timeout\n" {
		t.Errorf("/readyz says %s", body)
	}
	master.signal(t, syscall.SIGCONT)
	a.await(t, "the breaker is closed: Redis answers\" server="+master.addr)
	check(here[0], "200")
	check(elsewhere[0], "200")
	a.breakerMetrics(t, `openings_total 1 state{state="closed"} 1 state{state="open"} 0`)
	if n := strings.Count(a.logged(), "the breaker is "); n != 2 {
		t.Errorf("%d turns in the log, want 2", n)
	}
}

// When its replica has taken over from a master that is dead, nobody asks that one: its breaker closes.
func TestABreakerOfANodeThatIsReplacedCloses(t *testing.T) {
	c := startCluster(t)
	a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis="+c.url(), "--redis-timeout=1s")
	ask := a.checker()
	master := c.masters(t)[1]
	ip := ""
	for i := 0; ip == "" || c.ownerOf(t, c.slotOf("{ip="+ip+"}")) != master; i++ {
		ip = fmt.Sprint("203.0.113.", i)
	}
	check := func() string { return ask.check(t, "GET /deny", []string{"X-Real-IP: " + ip}, "X-Authz-Degraded") }
	same(t, check(), "200")
	c.patience(t, "2000")
	master.signal(t, syscall.SIGSTOP)
	master.gone = true
	await(t, "breaker that is open", func() bool {
		check()
		return strings.Contains(a.logged(), "the breaker is open")
	})
	await(t, "replica that has taken over", func() bool { return check() == "200" })
	a.await(t, "the breaker is closed: nobody asks this server any more\" server="+master.addr)
	a.breakerMetrics(t, `openings_total 1 state{state="closed"} 1 state{state="open"} 0`)
}

// A cluster of which no node answers is found out by its first requests, and by nobody after that.
func TestABreakerAnswersForAClusterThatNeverCame(t *testing.T) {
	a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis=redis://127.0.0.1:"+freePort(t)+",127.0.0.1:"+freePort(t), "--redis-timeout=20s")
	ask := a.checker()
	for range 10 {
		same(t, ask.check(t, "GET /allow", nil, "X-Authz-Degraded"), "200 X-Authz-Degraded=allow")
	}
	if n := a.counted(t, `authz_store_errors_total{kind="breaker"}`); n < 7 { // who reads the epoch may be among the three
		t.Errorf("%d of kind breaker, want 7 at least", n)
	}
}

// Nodes that say that they may not tell who has the slots do not close the breaker that another has opened,
// which hangs: the next look would wait for it again. When they all say so, it is an answer.
func TestABreakerThatOneNodeHasOpenedIsNotClosedByTheOthers(t *testing.T) {
	const denied = "-NOPERM this user has no permissions to run the 'cluster|slots' command\r\n"
	var nodes []*puppet
	var addrs []string
	for range 4 {
		n := startPuppet(t, admits)
		n.own(denied)
		nodes, addrs = append(nodes, n), append(addrs, "127.0.0.1:"+n.port)
	}
	refuses, hangs := nodes[0], nodes[3]
	hangs.own("")
	a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis=redis://"+strings.Join(addrs, ","))
	ask := a.checker()
	deny := func() { same(t, ask.check(t, "GET /deny", nil, "X-Authz-Degraded"), "503 X-Authz-Degraded=deny") }
	opened := func() bool { return strings.Contains(a.logged(), "the breaker is open") }
	await(t, "breaker that is open", func() bool { deny(); return opened() })
	looks := refuses.looked()
	await(t, "looks of the probes", func() bool { return refuses.looked() >= looks+4 })
	deny()
	a.breakerMetrics(t, `openings_total 1 state{state="closed"} 0 state{state="open"} 1`)
	hangs.own(denied)
	a.await(t, "the breaker is closed: Redis answers\" server=cluster")
	await(t, "refusal by the account", func() bool { deny(); return a.counted(t, `authz_store_errors_total{kind="noperm"}`) > 0 })
}

// A doctor looks at each master of a cluster.
func TestADoctorLooksAtEachMaster(t *testing.T) {
	c := startCluster(t)
	examine := func(args ...string) string {
		return regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(doctor(t, c.url(), args...), "REDIS")
	}
	well := strings.ReplaceAll(strings.TrimPrefix(healthy, "exit 0\n"), "standalone", "cluster")
	diagnosis(t, examine("--limits=../limits/examples/quickstart.toml"), "exit 0\n"+strings.Repeat(well, 3)+"ok       limits      2, which one call can decide\n")
	several := limitsFile(t, `
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
	diagnosis(t, examine("--limits="+several), "exit 0\n"+strings.Repeat(well, 3)+"ok       limits      3, on 2 identities: "+
		"a request that meets several of these may need a call in each of their slots, to peek and then to charge\n")
	for _, m := range c.masters(t) {
		if keys := m.Keys(context.Background(), "*").Val(); len(keys) != 0 {
			t.Errorf("it leaves %v behind", keys)
		}
	}
	one := doctor(t, "redis://"+c.masters(t)[0].addr+"?cluster=TRUE") // as the store reads it
	diagnosis(t, regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(one, "REDIS"), "exit 0\n"+strings.Repeat(well, 3))
	c.masters(t)[1].ConfigSet(context.Background(), "maxmemory", "1")
	got := examine()
	if !strings.HasPrefix(got, "exit 1\n") || strings.Count(got, "wrong ") != 2 || strings.Count(got, "\nwrong    scripts     "+allScripts+": Redis is full") != 1 ||
		strings.Count(got, "\nok       scripts     charge and refuse: "+allScripts+"\n") != 2 {
		t.Errorf("got\n%s", got)
	}
	// a single server that is taken for a cluster
	_, port := startRedisAt(t)
	same(t, doctor(t, "redis://127.0.0.1:"+port+"?cluster=true"),
		"exit 1\nwrong    connection  REDIS: the server is no node of a cluster, want one address and a URL without cluster: 127.0.0.1:"+port+": ERR This instance has cluster support disabled\n")
}
