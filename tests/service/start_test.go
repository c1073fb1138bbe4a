package service

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

// What can never work ends serve at its start, with the reason; what may come back is a warning.
func TestServeEndsAtItsStartOnARedisThatCanNeverWork(t *testing.T) {
	one, two := rig.FreePort(t), rig.FreePort(t)
	rig.StartRedis(t, "--port", one)
	rig.StartRedis(t, "--port", two)
	guard := rig.StartSentinels(t, 1, one)[0].Addr
	file := rig.LimitsFile(t, rig.Limit("a", "fixed_window", "5/h"))
	for url, want := range map[string]string{
		"redis://127.0.0.1:" + one + ",127.0.0.1:" + two: "the server is no node of a cluster, want one address and a URL without cluster: ",
		"redis://127.0.0.1:" + one + "?cluster=true":     "the server is no node of a cluster, want one address and a URL without cluster: ",
		"redis://127.0.0.1:" + one + "/99":               "the server has no such database as the URL names: ",
		"redis://127.0.0.1:" + one + "?master=main":      "the server is no Sentinel, want a URL without master: ",
		"redis://" + guard:                               "the server is a Sentinel, want ?master=NAME in the URL: ",
		"redis://" + guard + "," + guard:                 "the server is a Sentinel, want ?master=NAME in the URL: ",
		"redis://" + guard + "?master=other":             "the URL's master is not known: ",
	} {
		code, printed := rig.Authz(t, "serve", "--limits="+file, "--listen=127.0.0.1:0", "--admin=", "--redis="+url)
		place, _, _ := strings.Cut(url, "?")
		if want := "authz: --redis=" + place + ": " + want; code != 1 || !strings.Contains(printed, want) {
			t.Errorf("%s: exit %d: %s\nwant %s", url, code, printed, want)
		}
		if code, printed := rig.Authz(t, "doctor", "--redis="+url); code != 1 || !strings.Contains(printed, strings.TrimPrefix(strings.TrimSuffix(want, ": "), "the server ")) {
			t.Errorf("%s: doctor, exit %d: %s\nwant %s", url, code, printed, want)
		}
	}
	for _, url := range []string{"redis://127.0.0.1:" + rig.FreePort(t), "redis://127.0.0.1:" + rig.FreePort(t) + "?master=main",
		"redis://127.0.0.1:" + rig.FreePort(t) + "," + "127.0.0.1:" + rig.FreePort(t)} {
		a := rig.StartAuthz(t, "--limits="+file, "--redis="+url)
		a.Await(t, "Redis is not ready")
	}
}

// A server that was demoted, or refuses the login, is not connected to again for every check: at most once a second. The
// answers stay those of on_error, and Redis decides again within a second or two of its return.
func TestARefusingRedisIsNotConnectedToForEveryCheck(t *testing.T) {
	for name, refuse := range map[string]func(r *rig.RedisServer, on bool){
		"demoted": func(r *rig.RedisServer, on bool) {
			if on {
				r.Do(context.Background(), "replicaof", "127.0.0.1", "1")
			} else {
				r.Do(context.Background(), "replicaof", "no", "one")
			}
		},
		"another password": func(r *rig.RedisServer, on bool) {
			password := map[bool]string{true: ">other", false: ">first"}[on]
			r.Do(context.Background(), "acl", "setuser", "authz", "resetpass", password)
			if on {
				r.Do(context.Background(), "client", "kill", "user", "authz")
			}
		},
	} {
		r := rig.StartRedis(t)
		r.MustDo(t, "acl", "setuser", "authz", "on", ">first", "+@all", "~*")
		url := strings.Replace(r.URL(), "unix://", "unix://authz:first@", 1)
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+url, "--redis-timeout=20s", "--refusals-max=0")
		ask := a.Checker()
		rig.Same(t, ask.Check(t, "GET /deny", nil, "X-Authz-Degraded"), "200")
		connections := func() int {
			stats := r.Info(context.Background(), "stats").Val()
			n, _ := strconv.Atoi(regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(stats)[1])
			return n
		}
		refuse(r, true)
		rig.Await(t, name+": a refusal", func() bool { return ask.Check(t, "GET /deny", nil, "X-Authz-Degraded") == "503 X-Authz-Degraded=deny" })
		before, began, checks := connections(), time.Now(), 0
		for time.Since(began) < 3*time.Second {
			if got := ask.Check(t, "GET /deny", nil, "X-Authz-Degraded"); got != "503 X-Authz-Degraded=deny" {
				t.Fatalf("%s: %s, want on_error to answer", name, got)
			}
			checks++
		}
		if n := connections() - before; n > 8 || checks < 100 {
			t.Errorf("%s: %d connections for %d checks in 3 s, want one or two a second", name, n, checks)
		}
		refuse(r, false)
		began = time.Now()
		rig.Await(t, name+": an answer of Redis", func() bool {
			return ask.Check(t, "GET /deny", nil, "X-Authz-Degraded") == "200" || ask.Check(t, "GET /deny", nil) == "429"
		})
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: Redis decides again after %v, want a second or two", name, took)
		}
	}
}
