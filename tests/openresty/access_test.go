package openresty

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

var clientHeaders = []string{"Retry-After", "RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining",
	"X-RateLimit-Reset", "X-Authz-Limit", "X-Authz-Degraded"}

// The eleventh of ten a day is a real 429, whatever the request carries, and 403 is a rule's.
func TestAccessAnswersLikeTheService(t *testing.T) {
	for _, r := range []*rig.RedisServer{rig.StartRedis(t), nil} {
		n := rig.StartPack(t, r, "", rig.SiteConf{Limits: `
			[limit.day]
			match = { path = "/day/**" }
			key = ["path:raw"]
			algorithm = "fixed_window"
			rate = "10/366d"
			[limit.never]
			match = { path = "/never" }
			key = []
			algorithm = "token_bucket"
			rate = "0/s"
			[limit.closed]
			match = { path = "/closed" }
			key = ["header:X-User"]
			missing = "deny"
			algorithm = "token_bucket"
			rate = "1/s"
			[deny.scanners]
			match = { path = "/wp-login.php" }
			[allow.probes]
			match = { path = "/healthz" }`})
		day := func(name, line, body string, header ...string) {
			t.Helper()
			for i := range 10 {
				if got := n.Send(t, line, body, header...).Show(clientHeaders...); got != "200" {
					t.Errorf("%s %d: %s, want 200", name, i, got)
				}
			}
			got := n.Send(t, line, body, header...)
			seconds := got.Header.Get("Retry-After")
			rig.Same(t, got.Show(clientHeaders...), strings.ReplaceAll(
				`429 Retry-After=SECONDS RateLimit="day";r=0;t=SECONDS RateLimit-Policy="day";q=10;w=31622400 X-Authz-Limit=day`, "SECONDS", seconds))
		}
		day("GET", "GET /day/get", "")
		day("POST", "POST /day/post", "some=body")
		day("cookie", "GET /day/cookie", "", "Cookie: c="+strings.Repeat("x", 5000))
		rig.Same(t, n.Send(t, "GET /never", "").Show(clientHeaders...), `429 RateLimit="never";r=0 RateLimit-Policy="never";q=0 X-Authz-Limit=never`)
		rig.Same(t, n.Send(t, "GET /closed", "").Show(clientHeaders...), "403")
		rig.Same(t, n.Send(t, "GET /closed", "", "X-User: u").Show(clientHeaders...), "200")
		rig.Same(t, n.Send(t, "GET /wp-login.php", "").Show(clientHeaders...), "403")
		rig.Same(t, n.Send(t, "GET /healthz", "").Show(clientHeaders...), "200")
		rig.Same(t, n.SendH2(t, "GET /day/get", "").Show("X-Authz-Limit"), "429 X-Authz-Limit=day")
		rig.Same(t, n.Metric(t, `authz_decisions_total{limit="day",verdict="admitted"}`), "30")
		rig.Same(t, n.Metric(t, `authz_decisions_total{limit="day",verdict="limited"}`), "4")
		rig.Same(t, n.Metric(t, `authz_decisions_total{limit="never",verdict="limited"}`), "1")
		rig.Same(t, n.Metric(t, `authz_decisions_total{limit="closed",verdict="blocked"}`), "1")
		rig.Same(t, n.Metric(t, `authz_key_parts_missing_total{limit="closed"}`), "1")
		rig.Same(t, n.Metric(t, `authz_requests_total{verdict="blocked"}`), "2")
	}
}

// C162: a request that meets three limits, of different algorithms, is one EVALSHA; and so is one that meets
// one; none needs no Redis at all.
func TestThreeLimitsCostThePackOneCall(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: `
		[limit.a]
		match = { path = ["/three", "/one"] }
		key = ["ip"]
		algorithm = "token_bucket"
		rate = "100/d"
		[limit.b]
		match = { path = "/three" }
		key = ["ip"]
		algorithm = "sliding_window"
		rate = "100/d"
		[limit.c]
		match = { path = "/three" }
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "100/d"`})
	s.SendAll(t, 2, "GET /three") // Redis knows the scripts
	s.SendAll(t, 2, "GET /one")
	for path, want := range map[string]int{"/three": 3, "/one": 3, "/none": 0} {
		before, evals := r.Calls(t, "evalsha"), r.Calls(t, "eval")
		rig.Same(t, s.SendAll(t, 3, "GET "+path), "200 200 200")
		if calls := r.Calls(t, "evalsha") - before; calls != want || r.Calls(t, "eval") != evals {
			t.Errorf("three requests for %s cost Redis %d EVALSHA and %d EVAL, want %d and none", path, calls, r.Calls(t, "eval")-evals, want)
		}
	}
}

func TestTheOptionsChooseTheHeaders(t *testing.T) {
	toml := `
		[limit.two]
		key = ["path:raw"]
		algorithm = "token_bucket"
		rate = "2/7200s"`
	headers := func(options, first, third string) {
		t.Helper()
		n := rig.StartPack(t, nil, options, rig.SiteConf{Limits: toml})
		rig.Same(t, n.Send(t, "GET /x", "").Show(clientHeaders...), first)
		n.Send(t, "GET /x", "")
		rig.Same(t, n.Send(t, "GET /x", "").Show(clientHeaders...), third)
	}
	headers(`headers = "both", admitted_headers = true, retry_after_max = "60s"`,
		`200 RateLimit="two";r=1;t=3600 RateLimit-Policy="two";q=2;w=7200 X-RateLimit-Limit=2 X-RateLimit-Remaining=1 X-RateLimit-Reset=3600`,
		`429 Retry-After=60 RateLimit="two";r=0;t=60 RateLimit-Policy="two";q=2;w=7200 X-RateLimit-Limit=2 X-RateLimit-Remaining=0 X-RateLimit-Reset=60 X-Authz-Limit=two`)
	headers(`headers = "legacy", retry_after_max = "1m"`,
		`200`, `429 Retry-After=60 X-RateLimit-Limit=2 X-RateLimit-Remaining=0 X-RateLimit-Reset=60 X-Authz-Limit=two`)
}

// C136: DECLINED leaves the last word to nginx's own access rules, OK would open what they close.
func TestAnAdmittedRequestOpensNothingThatNginxCloses(t *testing.T) {
	n := rig.StartPack(t, nil, "", rig.SiteConf{Limits: `
		[limit.all]
		key = []
		algorithm = "fixed_window"
		rate = "4/366d"
		[deny.rule]
		match = { path = "/ruled" }`, Server: `
		location /any { satisfy any; deny all; content_by_lua_block { ngx.print("ok") } }
		location /all { satisfy all; deny all; content_by_lua_block { ngx.print("ok") } }
		location /open { satisfy any; allow all; content_by_lua_block { ngx.print("ok") } }
		location /ruled { content_by_lua_block { ngx.print("ok") } }`})
	rig.Same(t, n.Send(t, "GET /any", "").Show("X-Authz-Limit"), "403")
	rig.Same(t, n.Metric(t, `authz_decisions_total{limit="all",verdict="admitted"}`), "1")
	// What nginx's own modules refuse or admit is counted too.
	rig.Same(t, n.Send(t, "GET /all", "").Show("X-Authz-Limit"), "403")
	rig.Same(t, n.Send(t, "GET /open", "").Show("X-Authz-Limit"), "200")
	rig.Same(t, n.Send(t, "GET /ruled", "").Show("X-Authz-Limit"), "403")
	rig.Same(t, n.Metric(t, `authz_decisions_total{limit="all",verdict="admitted"}`), "3")
	rig.Same(t, n.Send(t, "GET /any", "").Show("X-Authz-Limit"), "403")
	for _, target := range []string{"/any", "/all", "/open"} {
		rig.Same(t, n.Send(t, "GET "+target, "").Show("X-Authz-Limit"), "429 X-Authz-Limit=all")
	}
}

// A leaky bucket's answer waits its turn, on either store.
func TestALeakyBucketHoldsTheRequest(t *testing.T) {
	for _, r := range []*rig.RedisServer{rig.StartRedis(t), nil} {
		n := rig.StartPack(t, r, "", rig.SiteConf{Limits: `
			[limit.paced]
			key = []
			algorithm = "leaky_bucket"
			rate = "10/s"
			burst = 3`})
		begun, answered := time.Now(), make(chan time.Duration, 4)
		for range 4 {
			go func() {
				defer func() { answered <- time.Since(begun) }()
				rig.Same(t, n.Send(t, "GET /", "").Show(), "200")
			}()
		}
		for i := range 4 {
			// The first may have come up to a little after begun, never before.
			if took, least := <-answered, time.Duration(i)*99*time.Millisecond; took < least {
				t.Errorf("answer %d came after %v, want %v or more", i, took, least)
			}
		}
		rig.Same(t, n.Metric(t, `authz_decisions_total{limit="paced",verdict="admitted"}`), "4")
	}
}

// check() decides and goes on: what it returns is all there is to say.
func TestCheckDecidesAndLeavesTheRestToTheCaller(t *testing.T) {
	n := rig.StartPack(t, nil, "", rig.SiteConf{Limits: `
		[limit.one]
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		on_error = "deny"`, Server: `
		location /check {
			access_by_lua_block {
				local d, again = authz.check(), authz.check()
				ngx.header.X_Seen = ("%s %d %s %d %s"):format(d.verdict, d.status, d.limit.name, d.hold_us, again.verdict)
			}
			content_by_lua_block { ngx.print("went on") }
		}
		location /apply {
			access_by_lua_block { authz.apply(authz.check()) }
			content_by_lua_block { ngx.print("went on") }
		}`})
	show := func(line string) string {
		a := n.Send(t, line, "")
		return a.Show("X-Seen", "X-Authz-Limit") + " " + strings.TrimSpace(fmt.Sprintf("%.7s", a.Body))
	}
	rig.Same(t, show("GET /check"), "200 X-Seen=admitted 200 one 0 admitted went on")
	rig.Same(t, show("GET /check"), "200 X-Seen=limited 429 one 0 limited went on")
	rig.Same(t, show("GET /apply"), "429 X-Authz-Limit=one <html>")
}
