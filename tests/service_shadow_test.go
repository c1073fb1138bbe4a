package tests

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"
)

const shadowLimits = `
	[limit.ip]
	match     = { path = "/both" }
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "3/366d"
	on_error  = %q
	[limit.trial]
	key       = ["header:Who"]
	missing   = "share"
	algorithm = "fixed_window"
	rate      = "100/366d"
	mode      = "shadow"
	on_error  = %[1]q`

// A shadow limit whose bucket cannot be asked refuses, decides, delays and degrades nothing: not with a key of another type,
// not on a node of a cluster that hangs, for each on_error, and where it is the only limit.
func TestAShadowLimitCostsItsRequestNothing(t *testing.T) {
	for _, onError := range []string{"deny", "allow", "local"} {
		limits := limitsFile(t, fmt.Sprintf(shadowLimits, onError))
		r := startRedis(t)
		r.LPush(context.Background(), "authz:v1:{header:who=w}:trial:fw", "x")
		a := startAuthz(t, "--limits="+limits, "--redis="+r.url(), "--redis-timeout=20s", "--refusals-max=0")
		ask := a.checker()
		for i, want := range []string{"200", "200", "200", "429"} {
			if got := ask.check(t, "GET /both", []string{"Who: w"}, "X-Authz-Degraded"); got != want {
				t.Errorf("on_error = %s, a key of another type, request %d: %s, want %s", onError, i+1, got, want)
			}
		}
		same(t, ask.check(t, "GET /shadow", []string{"Who: w"}, "X-Authz-Degraded"), "200")
		same(t, ask.check(t, "GET /shadow", []string{"Who: well"}, "X-Authz-Degraded"), "200")
		await(t, "the answer of a shadow that was asked apart", func() bool {
			return a.counted(t, `authz_decisions_total{limit="trial",verdict="shadow_admitted"}`) == 1
		})
		await(t, "the failures of shadows", func() bool { return a.counted(t, `authz_store_errors_total{kind="wrongtype"}`) == 5 })
	}
}

// The same on a node of a cluster that hangs: the answer does not wait for it either.
func TestAShadowLimitOnANodeThatHangsCostsItsRequestNothing(t *testing.T) {
	c := startCluster(t)
	const timeout = 2 * time.Second
	home := c.slots(t)
	nodeOf := func(key string) string {
		slot := c.nodes[0].ClusterKeySlot(context.Background(), key).Val()
		for _, s := range home {
			if int64(s.Start) <= slot && slot <= int64(s.End) {
				return s.Nodes[0].Addr
			}
		}
		t.Fatal("no node for slot", slot)
		return ""
	}
	who := 0
	for nodeOf(fmt.Sprintf("{header:who=w%d}", who)) == nodeOf("{ip=203.0.113.9}") {
		who++
	}
	var services []*authzServer
	for _, onError := range []string{"deny", "allow"} {
		a := startAuthz(t, "--limits="+limitsFile(t, fmt.Sprintf(shadowLimits, onError)), "--redis="+c.url(), fmt.Sprint("--redis-timeout=", timeout), "--redis-prefix="+onError, "--refusals-max=0")
		a.checker().check(t, "GET /both", []string{"Who: w0", "X-Real-IP: 198.51.100.1"}) // the cluster is known
		services = append(services, a)
	}
	for _, n := range c.nodes {
		if n.addr == nodeOf(fmt.Sprintf("{header:who=w%d}", who)) {
			n.signal(t, syscall.SIGSTOP)
			defer n.signal(t, syscall.SIGCONT)
		}
	}
	for _, a := range services {
		ask := a.checker()
		for i, want := range []string{"200", "200", "200", "429", "429"} {
			began := time.Now()
			got := ask.check(t, "GET /both", []string{fmt.Sprint("Who: w", who), "X-Real-IP: 203.0.113.9"}, "X-Authz-Degraded")
			if took := time.Since(began); got != want || took > timeout/2 {
				t.Errorf("request %d: %s after %v, want %s at once", i+1, got, took, want)
			}
		}
		began := time.Now()
		if got := ask.check(t, "GET /shadow", []string{fmt.Sprint("Who: w", who)}, "X-Authz-Degraded"); got != "200" || time.Since(began) > timeout/2 {
			t.Errorf("a request with the shadow alone: %s after %v, want 200 at once", got, time.Since(began))
		}
	}
}
