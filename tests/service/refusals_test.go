package service

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/limits"
	"authz/tests/rig"
)

// An attack that goes on costs Redis what was admitted, and for each attacker one call more.
func TestAnAttackCostsRedisNextToNothing(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, `
		[limit.login]
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "5/d"
		[limit.watch]
		key       = ["ip"]
		algorithm = "sliding_window"
		rate      = "2/d"
		mode      = "shadow"`), "--redis="+r.URL(), "--redis-timeout=20s")
	const attackers, requests = 50, 20_000
	got := rig.ManyAtOnce(t, requests, []*rig.AuthzServer{a}, func(i int) (string, []string) {
		return "GET /", []string{fmt.Sprint("X-Real-IP: 203.0.113.", i%attackers)}
	})
	rig.Same(t, fmt.Sprint(got), fmt.Sprintf("map[200:%d 429:%d]", 5*attackers, requests-5*attackers))
	// 64 at a time, each of them may be refused by Redis before it is known; and once more when there is an epoch.
	calls, remembered := r.Calls(t, "evalsha"), a.Counted(t, "authz_remembered_refusals_total")
	if most := 7*attackers + 2*64; calls > most || remembered < requests-most {
		t.Errorf("%d calls and %d remembered refusals for %d requests, want %d calls at most", calls, remembered, requests, most)
	}
	// The limit has refused them all; the shadow was asked only about those that Redis saw.
	rig.Same(t, a.Metrics(t, `authz_decisions_total{limit="login",verdict="limited"`),
		fmt.Sprintf("authz_decisions_total{limit=\"login\",verdict=\"limited\"} %d\n", requests-5*attackers))
	rig.Same(t, fmt.Sprint(a.Counted(t, "authz_refusals")), fmt.Sprint(attackers))
}

// A remembered refusal never lasts longer than the truth: whenever Redis would admit, so does authz.
func TestARememberedRefusalEndsWhenRedisWouldAdmit(t *testing.T) {
	r := rig.StartRedis(t)
	direct := rig.OpenRedis(t, r)
	for _, algorithm := range rig.Algorithms {
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, fmt.Sprintf(`
			[limit.api]
			key       = []
			algorithm = %q
			rate      = "3/s"`, algorithm)), "--redis="+r.URL(), "--redis-timeout=20s")
		ask := a.Checker()
		l := rig.NewLimit(t, "api", algorithm, 3, 1e6, map[string]int64{"token_bucket": 3}[algorithm])
		c := limits.Check{Limit: l, Rate: &l.Rate, Key: []byte("authz:v1:{api}:api:" + l.Algorithm.Code()), Cost: 1}
		admitted := 0
		for admitted < 9 {
			results, err := direct.Take(context.Background(), 0, []limits.Check{c}, true, nil)
			if err != nil {
				t.Fatal(err)
			}
			switch got := ask.Check(t, "GET /", nil); {
			case got == "200":
				admitted++
			case results[0].Allowed:
				t.Fatalf("%s: %s, though Redis would admit", algorithm, got)
			}
		}
		if algorithm != "leaky_bucket" && a.Counted(t, "authz_remembered_refusals_total") == 0 {
			t.Errorf("%s: no refusal was remembered", algorithm)
		}
	}
}

func TestAnEditEndsARememberedRefusal(t *testing.T) {
	r := rig.StartRedis(t)
	text := rig.Limit("a", "sliding_window", "5/d")
	file := rig.LimitsFile(t, text)
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s")
	ask := a.Checker()
	ten := func() (admitted int) {
		for range 10 {
			if ask.Check(t, "GET /a", nil) == "200" {
				admitted++
			}
		}
		return admitted
	}
	rig.Same(t, fmt.Sprint(ten(), a.Counted(t, "authz_remembered_refusals_total")), "5 4")
	rig.ReplaceFile(t, file, strings.ReplaceAll(text, "5/d", "8/d"))
	a.Await(t, "limits reloaded")
	rig.Same(t, fmt.Sprint(ten()), "3")
}

// awaitEpoch waits until the epoch is in Redis, and n instances have read it.
func awaitEpoch(t *testing.T, r *rig.RedisServer, key string, n int) {
	t.Helper()
	rig.Await(t, "an epoch", func() bool { return r.Exists(t.Context(), key).Val() == 1 })
	begun := r.Calls(t, "get")
	rig.Await(t, "readings of the epoch", func() bool { return r.Calls(t, "get") >= begun+2*n+1 })
}

// Whoever deletes a bucket changes the epoch, and all instances forget.
func TestAResetEndsWhatIsRemembered(t *testing.T) {
	r := rig.StartRedis(t)
	flags := []string{"--limits=" + rig.LimitsFile(t, rig.Limit("a", "sliding_window", "1/d")), "--redis=" + r.URL(), "--redis-timeout=20s", "--redis-prefix=site"}
	two := []*rig.AuthzServer{rig.StartAuthz(t, flags...), rig.StartAuthz(t, flags...)}
	ctx := context.Background()
	for round := range 2 {
		for _, a := range two {
			for a.Checker().Check(t, "GET /a", nil) != "429" {
			}
		}
		awaitEpoch(t, r, "site:v1:epoch", 2)
		for _, a := range two {
			rig.Same(t, a.Checker().Check(t, "GET /a", nil), "429") // cached again, by this epoch
		}
		r.Del(ctx, "site:v1:{a}:a:sw")
		rig.Same(t, two[round].Checker().Check(t, "GET /a", nil), "429") // what is remembered is not asked about
		r.Set(ctx, "site:v1:epoch", time.Now().UnixMicro(), time.Hour)
		for _, a := range two {
			ask := a.Checker()
			rig.Await(t, "an admission after the reset", func() bool { return ask.Check(t, "GET /a", nil) == "200" })
			r.Del(ctx, "site:v1:{a}:a:sw") // so that the other may admit, too
		}
	}
}

// Each loaded set begins the refusal cache anew, also when the numbers come back that a refusal was made from: in between,
// another window has begun.
func TestACachedRefusalEndsWithTheSetItWasMadeFrom(t *testing.T) {
	r, text := rig.StartRedis(t), rig.Limit("a", "fixed_window", "1/d")
	file := rig.LimitsFile(t, text)
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s")
	ask := a.Checker()
	rig.Same(t, ask.Check(t, "GET /a", nil)+" "+ask.Check(t, "GET /a", nil), "200 429")
	awaitEpoch(t, r, "authz:v1:epoch", 1)
	rig.Same(t, ask.Check(t, "GET /a", nil)+" "+ask.Check(t, "GET /a", nil), "429 429")
	rig.ReplaceFile(t, file, rig.Limit("a", "fixed_window", "5/m"))
	a.Await(t, "limits reloaded")
	rig.Same(t, ask.Check(t, "GET /a", nil), "200")
	rig.ReplaceFile(t, file, text)
	a.Await(t, "limits reloaded", 2)
	rig.Same(t, ask.Check(t, "GET /a", nil), "200")
}

// A Redis that comes back empty, flushed while it is connected or started anew, begins the refusal cache anew.
func TestACachedRefusalEndsWithTheRedisThatRefused(t *testing.T) {
	for name, lose := range map[string]func(*testing.T, *rig.RedisServer){
		"flushed":      func(t *testing.T, r *rig.RedisServer) { r.MustDo(t, "flushall") },
		"started anew": func(t *testing.T, r *rig.RedisServer) { r.Kill(t); r.StartAgain(t, "eady to accept connections") },
		"flushed, and its epoch may not be read": func(t *testing.T, r *rig.RedisServer) {
			r.MustDo(t, "acl", "setuser", "default", "resetkeys", "~authz:v1:{*")
			r.MustDo(t, "flushall")
		},
		"flushed, and its epoch may be read alone": func(t *testing.T, r *rig.RedisServer) {
			r.MustDo(t, "acl", "setuser", "default", "resetkeys", "~authz:v1:{*", "%R~authz:v1:epoch")
			r.MustDo(t, "flushall")
		},
	} {
		r := rig.StartRedis(t)
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Limit("a", "sliding_window", "2/d")), "--redis="+r.URL(), "--redis-timeout=20s")
		ask := a.Checker()
		for ask.Check(t, "GET /a", nil) != "429" {
		}
		awaitEpoch(t, r, "authz:v1:epoch", 1)
		rig.Same(t, ask.Check(t, "GET /a", nil)+" "+ask.Check(t, "GET /a", nil), "429 429")
		lose(t, r)
		rig.Await(t, name+": an admission", func() bool { return ask.Check(t, "GET /a", nil) == "200" })
	}
}
