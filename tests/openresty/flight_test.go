package openresty

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"authz/tests/rig"
)

// 400 clients over TCP have no connection to Redis made anew: a worker has as many calls in flight as its pool has
// connections, the others wait, and none is let in by allow.
func TestACrowdMakesNoConnectionsAnew(t *testing.T) {
	port := rig.FreePort(t)
	r := rig.StartRedis(t, "--port", port)
	s := &rig.Site{Redis: r, App: rig.StartApp(t)}
	conf := rig.SiteConf{Limits: `
		[limit.a]
		key       = ["ip"]
		algorithm = "token_bucket"
		rate      = "1000000/s"
		burst     = 1000000
		on_error  = "allow"`, Server: `
		add_header X-Authz-Degraded $authz_degraded always;
		location / { try_files /none @ok; }
		location @ok { add_header X-Authz-Degraded $authz_degraded always; return 204; }`}
	s.NginxServer = rig.StartPackNginx(t, 1, s.PackConf(fmt.Sprintf(`redis = {host = "127.0.0.1", port = %s, timeout = "2s"},`, port), conf),
		map[string]string{"limits.json": string(rig.Compile(t, conf.Limits).JSON())})
	ctx, end := context.WithTimeout(t.Context(), 3*time.Second)
	defer end()
	var mu sync.Mutex
	answers := map[string]int{}
	var clients sync.WaitGroup
	for range 400 {
		clients.Go(func() {
			c, err := rig.Dial(s.Addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			replies := bufio.NewReader(c)
			for ctx.Err() == nil {
				fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: site.test\r\n\r\n")
				resp, err := http.ReadResponse(replies, nil)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				mu.Lock()
				answers[fmt.Sprint(resp.StatusCode, resp.Header.Get("X-Authz-Degraded"))]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	t.Log(answers)
	if n := r.ConnectionsReceived(); n > 80 {
		t.Errorf("%d connections to Redis for %v answers, want the pool's 64 and a few", n, answers)
	}
	if len(answers) != 1 || answers["204"] < 1000 {
		t.Errorf("answers %v, want all 204", answers)
	}
}

// The module connects to a server that was demoted, or refuses the login, about once a second, and not for every check.
func TestTheModuleDoesNotConnectToARefusingRedisForEveryCheck(t *testing.T) {
	for name, refuse := range map[string]func(r *rig.RedisServer, on bool){
		"demoted": func(r *rig.RedisServer, on bool) {
			if on {
				r.Do(context.Background(), "replicaof", "127.0.0.1", "1")
			} else {
				r.Do(context.Background(), "replicaof", "no", "one")
			}
		},
		"another password": func(r *rig.RedisServer, on bool) {
			r.Do(context.Background(), "acl", "setuser", "authz", "resetpass", map[bool]string{true: ">other", false: ">first"}[on])
			if on {
				r.Do(context.Background(), "client", "kill", "user", "authz")
			}
		},
	} {
		r := rig.StartRedis(t)
		r.MustDo(t, "acl", "setuser", "authz", "on", ">first", "+@all", "~*")
		s := &rig.Site{Redis: r, App: rig.StartApp(t)}
		conf := rig.SiteConf{Limits: "[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"1000000/366d\"\non_error = \"deny\"\n"}
		s.NginxServer = rig.StartPackNginx(t, 1, s.PackConf(fmt.Sprintf(`redis = {socket = %q, user = "authz", password = "first", timeout = "20s"},`, r.Socket), conf),
			map[string]string{"limits.json": string(rig.Compile(t, conf.Limits).JSON())})
		s.MayLog = []string{"authz: Redis cannot answer", "authz: the breaker is"}
		status := func() int { return s.Send(t, "GET /", "").Status }
		rig.Same(t, fmt.Sprint(status()), "200")
		refuse(r, true)
		rig.Await(t, name+": a refusal", func() bool { return status() == 503 })
		before, began, checks := r.ConnectionsReceived(), time.Now(), 0
		for ; time.Since(began) < 3*time.Second; checks++ {
			if got := status(); got != 503 {
				t.Fatalf("%s: %d, want on_error to answer", name, got)
			}
		}
		if n := r.ConnectionsReceived() - before; n > 8 || checks < 100 {
			t.Errorf("%s: %d connections for %d checks in 3 s, want one or two a second", name, n, checks)
		}
		refuse(r, false)
		began = time.Now()
		rig.Await(t, name+": an answer of Redis", func() bool { return status() == 200 })
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("%s: Redis decides again after %v, want a second or two", name, took)
		}
	}
}

// A shadow limit whose key is of another type costs its request nothing in the module either, nor one that stands alone.
func TestAShadowLimitCostsItsRequestNothingInTheModule(t *testing.T) {
	for _, onError := range []string{"deny", "allow", "local"} {
		r := rig.StartRedis(t)
		r.LPush(t.Context(), "authz:v1:{header:who=w}:trial:fw", "x")
		s := rig.StartPack(t, r, "", rig.SiteConf{Limits: fmt.Sprintf(rig.ShadowLimits, onError), Server: `
			add_header X-Authz-Degraded $authz_degraded always;
			location / { proxy_pass http://app; }`})
		for i, want := range []string{"200", "200", "200", "429"} {
			if got := s.Send(t, "GET /both", "", "Who: w").Show("X-Authz-Degraded"); got != want {
				t.Errorf("on_error = %s, request %d: %s, want %s", onError, i+1, got, want)
			}
		}
		rig.Same(t, s.Send(t, "GET /shadow", "", "Who: w").Show("X-Authz-Degraded"), "200")
		rig.Same(t, s.Send(t, "GET /shadow", "", "Who: well").Show("X-Authz-Degraded"), "200")
		rig.Await(t, "the answer of a shadow that was asked apart", func() bool {
			return s.Metric(t, `authz_decisions_total{limit="trial",verdict="shadow_admitted"}`) == "1"
		})
	}
}
