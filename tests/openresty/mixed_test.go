package openresty

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authz/tests/rig"
)

// C159: half of the requests go through two instances of the service, half through two workers of the
// pack, 64 at a time: exactly the limit is admitted, since both charge the same keys by the same scripts.
func TestTheServiceAndThePackCountTogether(t *testing.T) {
	limits := ""
	wanted := map[string]int{"token_bucket": 100, "leaky_bucket": 1, "fixed_window": 100, "sliding_window": 100, "sliding_counter": 100}
	for algorithm := range wanted {
		limits += fmt.Sprintf(`
			[limit.%[1]s]
			match     = { path = "/%[1]s/**" }
			key       = ["ip", "header:X-Token", "path"]
			missing   = "share"
			algorithm = "%[1]s"
			rate      = "100/366d"`, algorithm)
	}
	r := rig.StartRedis(t)
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: limits, Server: rig.SayOK})
	file := rig.LimitsFile(t, limits)
	var services [2]*rig.Checker
	for i := range services {
		services[i] = rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s").Checker()
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()

	const clients, each = 64, 10
	for algorithm, want := range wanted {
		var mu sync.Mutex
		answers := map[string]int{}
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range each {
					by, said := "service", ""
					line := fmt.Sprintf("/%s/%d", algorithm, i)
					if c%2 == 0 {
						var err error
						if said, err = services[c/2%2].Try("GET "+line, []string{"X-Real-IP: 127.0.0.1", "X-Token: secret"}); err != nil {
							t.Error(err)
						}
					} else {
						by = "pack"
						request, _ := http.NewRequest("GET", "http://"+s.Addr+line, nil)
						request.Header.Set("X-Token", "secret")
						response, err := client.Do(request)
						if err != nil {
							t.Error(err)
							return
						}
						said = fmt.Sprint(rig.ReadAnswer(t, response).Status)
					}
					mu.Lock()
					answers[said]++
					answers[by+" "+said]++
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		rig.Same(t, fmt.Sprint(algorithm, answers["200"], answers["429"]), fmt.Sprint(algorithm, want, clients*each-want))
		if want > 1 && (answers["service 200"] == 0 || answers["pack 200"] == 0) {
			t.Errorf("%s: %v, want some admitted on either side", algorithm, answers)
		}
	}
	if keys := s.Keys(t); len(keys) != len(wanted) {
		t.Errorf("%d buckets, want one for each limit:\n%s", len(keys), strings.Join(keys, "\n"))
	}
}

// The same requests, on either side with a Redis of its own, have the same answers to the last word; only
// the seconds depend on when they came, and those of one answer are the same in all its headers.
func TestTheServiceAndThePackSayTheSame(t *testing.T) {
	limits := `
		[limit.all]
		match = { path = ["/x", "/y"] }
		key = ["path"]
		algorithm = "sliding_window"
		rate = "20/366d"
		[limit.big]
		key = ["query:big"]
		missing = "skip"
		algorithm = "token_bucket"
		rate = "1000000/366d"
		burst = 285
		cost = "header:X-Cost"
		cost_max = 50
		[limit.big2]
		key = ["query:big"]
		missing = "skip"
		algorithm = "token_bucket"
		rate = "1000000/366d"
		burst = 284
		cost = "header:X-Cost"
		cost_max = 50
		[limit.none]
		match = { path = "/none" }
		key = []
		algorithm = "fixed_window"
		rate = "0/s"
		[limit.watch]
		key = ["host"]
		algorithm = "sliding_counter"
		rate = "9/366d"
		mode = "shadow"
		[allow.free]
		match = { path = "/free" }
		[deny.no]
		match = { path = "/no" }`
	s := rig.StartPack(t, rig.StartRedis(t), `admitted_headers = true, headers = "both"`, rig.SiteConf{Limits: limits, Server: `
		location / { proxy_pass http://app; }`})
	service := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--redis="+rig.StartRedis(t).URL(), "--redis-timeout=20s", "--headers=both").Checker()
	headers := []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After"}
	random := rand.New(rand.NewPCG(5, 5))
	statuses := map[string]int{}
	for i := range 300 {
		line := "GET " + []string{"/x", "/y", "/z", "/none", "/free", "/no"}[random.IntN(6)] + []string{"", "?big=1", "?big=2"}[random.IntN(3)]
		cost := fmt.Sprint("X-Cost: ", random.IntN(9))
		want := service.Check(t, line, []string{"X-Original-Host: site.test", "X-Real-IP: 127.0.0.1", cost}, append(headers, "X-Authz-Limit")...)
		if strings.HasPrefix(want, "200") { // nginx alone is told who admitted
			want, _, _ = strings.Cut(want, " X-Authz-Limit=")
		}
		got := s.Send(t, line, "", cost).Show(append(headers, "X-Authz-Limit")...)
		if withoutSeconds(t, got) != withoutSeconds(t, want) {
			t.Errorf("%d: %s, %s\nthe pack says    %s\nthe service says %s", i, line, cost, got, want)
		}
		statuses[want[:3]]++
	}
	if statuses["200"] == 0 || statuses["429"] == 0 || statuses["403"] == 0 {
		t.Errorf("answers %v, want some of each", statuses)
	}
}

var answerSeconds = regexp.MustCompile(`(;t=| X-RateLimit-Reset=| Retry-After=)([0-9]+)`)

// withoutSeconds is an answer without its seconds. Of a refusal they are the same in each header.
func withoutSeconds(t *testing.T, answer string) string {
	t.Helper()
	all := answerSeconds.FindAllStringSubmatch(answer, -1)
	for _, m := range all {
		if strings.HasPrefix(answer, "429") && m[2] != all[0][2] {
			t.Errorf("%s has seconds that differ", answer)
		}
	}
	return answerSeconds.ReplaceAllString(answer, "$1")
}

// One nginx may have servers of the module beside servers of the includes, in any order: variables belong to all of http{}.
func TestTheIncludesAndTheModuleShareAnNginx(t *testing.T) {
	const limits = `
		[limit.two]
		key = ["host", "path:raw"]
		algorithm = "fixed_window"
		rate = "2/366d"`
	r, app := rig.StartRedis(t), rig.StartApp(t)
	service := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, limits), "--redis="+r.URL(), "--redis-timeout=20s")
	servers := []string{`
		server {
			listen LISTEN;
			server_name service.test;
			include authz/authz_server.conf;
			location / { try_files /nothing @app; }
			location @app { proxy_pass http://app; }
		}`, `
		server {
			listen LISTEN;
			server_name module.test;
			include authz/openresty.conf;
			access_by_lua_block { authz.access() }
			location / { try_files /nothing @app; }
			location @app { proxy_pass http://app; }
		}`}
	for _, target := range []string{"/first", "/second"} {
		servers[0], servers[1] = servers[1], servers[0]
		n := rig.StartPackNginx(t, 1, fmt.Sprintf(`
			lua_shared_dict authz 1m;
			init_by_lua_block {
				authz = assert(require("resty.authz").new{policy = "limits.json", redis = {socket = "%s", timeout = "20s"}})
			}
			log_format authz "$host $status $authz_status $authz_limit";
			access_log access.log authz;
			include authz/authz.conf;
			upstream authz { server %s; keepalive 16; }
			upstream app { server %s; }
			%s`, r.Socket, service.Addr, app.Addr, strings.Join(servers, "")),
			map[string]string{"limits.json": string(rig.Compile(t, limits).JSON())})
		for _, host := range []string{"service.test", "module.test"} {
			for _, want := range []string{"200", "200", "429 X-Authz-Limit=two"} {
				rig.Same(t, host+" "+n.Send(t, "GET "+target, "", "Host: "+host).Show("X-Authz-Limit"), host+" "+want)
			}
		}
		n.Quit(t)
		log := n.Read(t, "access.log")
		for _, line := range []string{"service.test 200 200 two", "service.test 429 429 two", "module.test 200 200 two", "module.test 429 429 two"} {
			if !strings.Contains(log, line+"\n") {
				t.Errorf("the access log lacks %q:\n%s", line, log)
			}
		}
	}
}
