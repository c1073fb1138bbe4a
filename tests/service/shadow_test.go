package service

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// A shadow limit whose bucket cannot be asked refuses, decides, delays and degrades nothing: not with a key of another type,
// not on a node of a cluster that hangs, for each on_error, and where it is the only limit.
func TestAShadowLimitCostsItsRequestNothing(t *testing.T) {
	for _, onError := range []string{"deny", "allow", "local"} {
		limits := rig.LimitsFile(t, fmt.Sprintf(rig.ShadowLimits, onError))
		r := rig.StartRedis(t)
		r.LPush(context.Background(), "authz:v1:{header:who=w}:trial:fw", "x")
		a := rig.StartAuthz(t, "--limits="+limits, "--redis="+r.URL(), "--redis-timeout=20s", "--refusals-max=0")
		ask := a.Checker()
		for i, want := range []string{"200", "200", "200", "429"} {
			if got := ask.Check(t, "GET /both", []string{"Who: w"}, "X-Authz-Degraded"); got != want {
				t.Errorf("on_error = %s, a key of another type, request %d: %s, want %s", onError, i+1, got, want)
			}
		}
		rig.Same(t, ask.Check(t, "GET /shadow", []string{"Who: w"}, "X-Authz-Degraded"), "200")
		rig.Same(t, ask.Check(t, "GET /shadow", []string{"Who: well"}, "X-Authz-Degraded"), "200")
		rig.Await(t, "the answer of a shadow that was asked apart", func() bool {
			return a.Counted(t, `authz_decisions_total{limit="trial",verdict="shadow_admitted"}`) == 1
		})
		rig.Await(t, "the failures of shadows", func() bool { return a.Counted(t, `authz_store_errors_total{kind="wrongtype"}`) == 5 })
	}
}

// The same on a node of a cluster that hangs: the answer does not wait for it either.
func TestAShadowLimitOnANodeThatHangsCostsItsRequestNothing(t *testing.T) {
	c := rig.StartCluster(t)
	const timeout = 2 * time.Second
	home := c.Slots(t)
	nodeOf := func(key string) string {
		slot := c.Nodes[0].ClusterKeySlot(context.Background(), key).Val()
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
	var services []*rig.AuthzServer
	for _, onError := range []string{"deny", "allow"} {
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, fmt.Sprintf(rig.ShadowLimits, onError)), "--redis="+c.URL(), fmt.Sprint("--redis-timeout=", timeout), "--redis-prefix="+onError, "--refusals-max=0")
		a.Checker().Check(t, "GET /both", []string{"Who: w0", "X-Real-IP: 198.51.100.1"}) // the cluster is known
		services = append(services, a)
	}
	for _, n := range c.Nodes {
		if n.Addr == nodeOf(fmt.Sprintf("{header:who=w%d}", who)) {
			n.Signal(t, syscall.SIGSTOP)
			defer n.Signal(t, syscall.SIGCONT)
		}
	}
	for _, a := range services {
		ask := a.Checker()
		for i, want := range []string{"200", "200", "200", "429", "429"} {
			began := time.Now()
			got := ask.Check(t, "GET /both", []string{fmt.Sprint("Who: w", who), "X-Real-IP: 203.0.113.9"}, "X-Authz-Degraded")
			if took := time.Since(began); got != want || took > timeout/2 {
				t.Errorf("request %d: %s after %v, want %s at once", i+1, got, took, want)
			}
		}
		began := time.Now()
		if got := ask.Check(t, "GET /shadow", []string{fmt.Sprint("Who: w", who)}, "X-Authz-Degraded"); got != "200" || time.Since(began) > timeout/2 {
			t.Errorf("a request with the shadow alone: %s after %v, want 200 at once", got, time.Since(began))
		}
	}
}
