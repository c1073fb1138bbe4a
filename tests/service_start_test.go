package tests

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What can never work ends serve at its start, with the reason; what may come back is a warning.
func TestServeEndsAtItsStartOnARedisThatCanNeverWork(t *testing.T) {
	one, two := freePort(t), freePort(t)
	startRedis(t, "--port", one)
	startRedis(t, "--port", two)
	guard := startSentinels(t, 1, one)[0].addr
	file := limitsFile(t, limit("a", "fixed_window", "5/h"))
	for url, want := range map[string]string{
		"redis://127.0.0.1:" + one + ",127.0.0.1:" + two: "the server is no node of a cluster, want one address and a URL without cluster: ",
		"redis://127.0.0.1:" + one + "?cluster=true":     "the server is no node of a cluster, want one address and a URL without cluster: ",
		"redis://127.0.0.1:" + one + "/99":               "the server has no such database as the URL names: ",
		"redis://127.0.0.1:" + one + "?master=main":      "the server is no Sentinel, want a URL without master: ",
		"redis://" + guard:                               "the server is a Sentinel, want ?master=NAME in the URL: ",
		"redis://" + guard + "," + guard:                 "the server is a Sentinel, want ?master=NAME in the URL: ",
		"redis://" + guard + "?master=other":             "the URL's master is not known: ",
	} {
		code, printed := authz(t, "serve", "--limits="+file, "--listen=127.0.0.1:0", "--admin=", "--redis="+url)
		place, _, _ := strings.Cut(url, "?")
		if want := "authz: --redis=" + place + ": " + want; code != 1 || !strings.Contains(printed, want) {
			t.Errorf("%s: exit %d: %s\nwant %s", url, code, printed, want)
		}
		if code, printed := authz(t, "doctor", "--redis="+url); code != 1 || !strings.Contains(printed, strings.TrimPrefix(strings.TrimSuffix(want, ": "), "the server ")) {
			t.Errorf("%s: doctor, exit %d: %s\nwant %s", url, code, printed, want)
		}
	}
	for _, url := range []string{"redis://127.0.0.1:" + freePort(t), "redis://127.0.0.1:" + freePort(t) + "?master=main",
		"redis://127.0.0.1:" + freePort(t) + "," + "127.0.0.1:" + freePort(t)} {
		a := startAuthz(t, "--limits="+file, "--redis="+url)
		a.await(t, "Redis is not ready")
	}
}

// A server that was demoted, or refuses the login, is not connected to again for every check: at most once a second. The
// answers stay those of on_error, and Redis decides again within a second or two of its return.
func TestARefusingRedisIsNotConnectedToForEveryCheck(t *testing.T) {
	for name, refuse := range map[string]func(r *redisServer, on bool){
		"demoted": func(r *redisServer, on bool) {
			if on {
				r.Do(context.Background(), "replicaof", "127.0.0.1", "1")
			} else {
				r.Do(context.Background(), "replicaof", "no", "one")
			}
		},
		"another password": func(r *redisServer, on bool) {
			password := map[bool]string{true: ">other", false: ">first"}[on]
			r.Do(context.Background(), "acl", "setuser", "authz", "resetpass", password)
			if on {
				r.Do(context.Background(), "client", "kill", "user", "authz")
			}
		},
	} {
		r := startRedis(t)
		r.do(t, "acl", "setuser", "authz", "on", ">first", "+@all", "~*")
		url := strings.Replace(r.url(), "unix://", "unix://authz:first@", 1)
		a := startAuthz(t, "--limits="+limitsFile(t, threeAnswers), "--redis="+url, "--redis-timeout=20s", "--refusals-max=0")
		ask := a.checker()
		same(t, ask.check(t, "GET /deny", nil, "X-Authz-Degraded"), "200")
		connections := func() int {
			stats := r.Info(context.Background(), "stats").Val()
			n, _ := strconv.Atoi(regexp.MustCompile(`total_connections_received:(\d+)`).FindStringSubmatch(stats)[1])
			return n
		}
		refuse(r, true)
		await(t, name+": a refusal", func() bool { return ask.check(t, "GET /deny", nil, "X-Authz-Degraded") == "503 X-Authz-Degraded=deny" })
		before, began, checks := connections(), time.Now(), 0
		for time.Since(began) < 3*time.Second {
			if got := ask.check(t, "GET /deny", nil, "X-Authz-Degraded"); got != "503 X-Authz-Degraded=deny" {
				t.Fatalf("%s: %s, want on_error to answer", name, got)
			}
			checks++
		}
		if n := connections() - before; n > 8 || checks < 100 {
			t.Errorf("%s: %d connections for %d checks in 3 s, want one or two a second", name, n, checks)
		}
		refuse(r, false)
		began = time.Now()
		await(t, name+": an answer of Redis", func() bool {
			return ask.check(t, "GET /deny", nil, "X-Authz-Degraded") == "200" || ask.check(t, "GET /deny", nil) == "429"
		})
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: Redis decides again after %v, want a second or two", name, took)
		}
	}
}
