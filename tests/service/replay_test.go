package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"authz/internal/replay"
	"authz/internal/replay/accesslog"
	"authz/limits"
	"authz/tests/rig"
)

// replayed is every way in which a limit can meet a request and count it.
const replayed = `
[limit.token]
match     = { path = "/api/**" }
key       = ["ip"]
algorithm = "token_bucket"
rate      = "3/s"
burst     = 4

[override.token."203.0.113.2"]
rate  = "1/s"
burst = 1

[limit.warmed]
match     = { path = "/api/**" }
key       = ["ip", "method"]
algorithm = "token_bucket"
rate      = "2/s"
burst     = 6
initial   = 0.5

[limit.leaky]
match     = { path = "/api/**", method = ["POST", "PUT"] }
key       = ["host"]
algorithm = "leaky_bucket"
rate      = "40/s"
burst     = 2

[limit.fixed]
match      = { path = ["/login", "/api/*"] }
key        = ["path", "cookie:s"]
missing    = "share"
algorithm  = "fixed_window"
rate       = "5/10s"
utc_offset = "+05:45"

[limit.sliding]
unless    = { header = { X-Plan = "*free*" } }
key       = ["header:X-API-Key"]
missing   = "ip"
algorithm = "sliding_window"
rate      = "9/20s"
cost      = "header:X-Size"
cost_max  = 3

[limit.counter]
match     = { query = { q = "*" } }
key       = ["query:q", "method"]
missing   = "share"
algorithm = "sliding_counter"
rate      = "4/5s"

[limit.watched]
key       = ["zone"]
missing   = "skip"
algorithm = "fixed_window"
rate      = "6/5s"
mode      = "shadow"

[limit.keyed]
match     = { path = "/keyed/**" }
key       = ["header:X-API-Key"]
missing   = "deny"
algorithm = "fixed_window"
rate      = "2/m"

[limit.off]
match     = { path = "/off" }
key       = []
algorithm = "fixed_window"
rate      = "0/s"

[limit.free]
match     = { path = "/free" }
key       = []
algorithm = "fixed_window"
rate      = "unlimited"

[deny.env]
match = { path = "/**/.env" }

[allow.probes]
match = { path = "/healthz" }
`

const replayedFormat = `$msec $remote_addr "$request" $status "$host" "$authz_zone" "$http_x_api_key" "$http_x_size" "$http_x_plan" "$http_cookie"`

// askedAndLogged is a random request: what a service is asked, and its line in a log.
func askedAndLogged(r *rand.Rand, at time.Time) (line string, header []string, logged string) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	method := pick("GET", "GET", "POST", "PUT")
	target := pick("/api/items", "/api/items", "/api/a/../b?q=x", "/api/items?q=a%20b", "//login/", "/login?q=1&q=2", "/keyed/x", "/off", "/free", "/a/.env", "/healthz", "/other?x#q=1")
	ip := pick("203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2")
	host := pick("a.example.com", "B.example.com:8080")
	say := func(name string, values ...string) string {
		value := pick(values...)
		if value == "" {
			return "-"
		}
		header = append(header, name+": "+value)
		return value
	}
	header = []string{"X-Real-IP: " + ip, "X-Original-Host: " + host}
	zone, key := say("X-Authz-Zone", "", "one", "two"), say("X-API-Key", "", "", "k1", "k2")
	size, plan := say("X-Size", "", "1", "2", "9", "x"), say("X-Plan", "", "", "free", "a free one")
	cookie := say("Cookie", "", "s=1", "a=2; s=1", "s=")
	return method + " " + target, header, fmt.Sprintf("%d.%03d %s \"%s %s HTTP/1.1\" 200 \"%s\" \"%s\" \"%s\" \"%s\" \"%s\" \"%s\"\n",
		at.Unix(), at.Nanosecond()/1e6, ip, method, target, host, zone, key, size, plan, cookie)
}

// Each request is sent to a service whose Redis has its clock stopped at the request's time. Replayed up to
// each line, the log must say what the service said of that line.
func TestReplayRefusesWhatTheServiceRefuses(t *testing.T) {
	redis, clock := rig.StartRedisWithClock(t)
	file := rig.LimitsFile(t, replayed)
	set, err := limits.Load("authz", file)
	if err != nil {
		t.Fatal(err)
	}
	format, err := accesslog.ParseFormat(replayedFormat)
	if err != nil {
		t.Fatal(err)
	}
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+redis.URL(), "--redis-timeout=20s", "--refusals-max=0")
	c, random, at := a.Checker(), rand.New(rand.NewPCG(1, 2)), time.Now().Truncate(time.Hour).Add(time.Hour)
	var log strings.Builder
	said, before := map[string]int64{}, map[string]int64{}
	for n := range 400 {
		at = at.Add(time.Duration([]int{0, 1, 7, 100, 333, 999, 2500}[random.IntN(7)]) * time.Millisecond)
		clock.Stop(t, at)
		line, header, logged := askedAndLogged(random, at)
		status := c.Check(t, line, header)
		said[status]++
		log.WriteString(logged)
		r, err := replay.Run(replay.Options{Limits: set, Format: format}, []replay.Log{{Name: "access.log", From: strings.NewReader(log.String())}})
		if err != nil {
			t.Fatal(err)
		}
		after := map[string]int64{"200": r.Policy.Admitted, "429": r.Policy.Limited, "403": r.Policy.Blocked}
		if before[status]++; after[status] != before[status] {
			t.Fatalf("line %d: the service says %s, replayed are %v, want %v:\n%s", n+1, status, after, before, logged)
		}
		before = after
		if n == 399 {
			compareCounts(t, a, r)
		}
	}
	if len(said) != 3 || slices.Min([]int64{said["200"], said["429"], said["403"]}) < 30 {
		t.Errorf("the service said %v, want some of each", said)
	}
}

// compareCounts compares what each limit said.
func compareCounts(t *testing.T, a *rig.AuthzServer, r *replay.Report) {
	t.Helper()
	metrics := a.Metrics(t, "authz_decisions_total{", "authz_key_parts_missing_total{")
	for _, l := range r.Policy.Limits {
		limited, blocked := "limited", fmt.Sprintf("authz_decisions_total{limit=%q,verdict=\"blocked\"} %d\n", l.Name, l.Blocked)
		if l.Shadow {
			limited = "shadow_limited"
		}
		want := []string{fmt.Sprintf("authz_decisions_total{limit=%q,verdict=%q} %d\n", l.Name, limited, l.Refused),
			fmt.Sprintf("authz_key_parts_missing_total{limit=%q} %d\n", l.Name, l.Missing)}
		if l.Blocked > 0 {
			want = append(want, blocked)
		}
		for _, line := range want {
			if !strings.Contains(metrics, line) {
				t.Errorf("the service has no metric %sit has\n%s", line, metrics)
			}
		}
	}
}
