package nginx

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

const tenAMinute = `
	[limit.api]
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "10/m"`

// refusal is a 429 with all that goes with it.
var refusal = regexp.MustCompile(`^429 Retry-After=(\d+) RateLimit="api";r=0;t=(\d+) RateLimit-Policy="api";q=10;w=60 X-Authz-Limit=api$`)

// C001, C003: the way of the 11th request, alike for every kind of request, over TCP and a unix socket.
func TestTheEleventhRequestOfTenIsA429(t *testing.T) {
	kinds := []struct {
		name, line, body, header string
	}{
		{"GET", "GET /a?b=c", "", "Accept: */*"},
		{"POST with a body", "POST /a", strings.Repeat("x", 10_000), "Accept: */*"},
		{"a cookie of 5 KB", "GET /a", "", "Cookie: big=" + strings.Repeat("x", 5000)},
	}
	client := 1
	for where, s := range map[string]*rig.Site{
		"unix": rig.StartSite(t, rig.SiteConf{Limits: tenAMinute, Server: rig.ClosedServer}),
		"TCP":  rig.StartSite(t, rig.SiteConf{Limits: tenAMinute, Server: rig.ClosedServer, Tcp: true}),
	} {
		for _, kind := range kinds {
			for protocol, send := range s.Both() {
				t.Run(where+"/"+kind.name+"/"+protocol, func(t *testing.T) {
					client++
					s.From = fmt.Sprintf("127.0.0.%d", client)
					for i := range 10 {
						want := fmt.Sprintf("app %s %d bytes", kind.line, len(kind.body))
						if got := send(t, kind.line, kind.body, kind.header); got.Status != 200 || got.Body != want {
							t.Fatalf("request %d: %d %q, want 200 %q", i+1, got.Status, got.Body, want)
						}
					}
					before := s.App.Asked.Load()
					got := send(t, kind.line, kind.body, kind.header)
					text := got.Show("Retry-After", "RateLimit", "RateLimit-Policy", "X-Authz-Limit", "X-RateLimit-Limit")
					m := refusal.FindStringSubmatch(text)
					if m == nil || m[1] != m[2] {
						t.Errorf("request 11: %s, want %s with one time twice", text, refusal)
					}
					if !strings.Contains(got.Body, "429 Too Many Requests") {
						t.Errorf("body %q", got.Body)
					}
					if asked := s.App.Asked.Load() - before; asked != 0 {
						t.Error("the application was asked all the same")
					}
				})
			}
		}
	}
}

// C008: the check is a GET, the rule is about the client's method.
func TestALimitOnAMethodSeesTheClientsMethod(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: `
		[limit.login]
		match     = { path = "/login", method = "POST", host = "site.test" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "5/366d"`})
	if got := s.SendAll(t, 6, "GET /login"); got != "200 200 200 200 200 200" {
		t.Errorf("GET: %s, want no limit", got)
	}
	if got := s.SendAll(t, 6, "POST /login"); got != "200 200 200 200 200 429" {
		t.Errorf("POST: %s, want five", got)
	}
	if got := s.SendAll(t, 1, "POST /login", "Host: other.test"); got != "200" {
		t.Errorf("another host: %s, want 200", got)
	}
}

func TestALocationNamesItsZone(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Server: `
			include authz/authz_server.conf;
			location /     { proxy_pass http://app; }
			location /api/ { set $authz_zone api; proxy_pass http://app; }
			location /off/ { auth_request off; proxy_pass http://app; }`,
		Limits: `
			[limit.zone]
			match     = { zone = "api" }
			key       = ["zone"]
			missing   = "skip"
			algorithm = "fixed_window"
			rate      = "2/366d"`,
	})
	for _, c := range [][2]string{{"/api/a", "200 200 429"}, {"/", "200 200 200"}, {"/off/", "200 200 200"}} {
		if got := s.SendAll(t, 3, "GET "+c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	// Only /api/ has a limit: what meets none is admitted without Redis (C018).
	if got := s.Asked(t); got != 3 {
		t.Errorf("Redis decided %d requests, want 3", got)
	}
}

func TestAdmittedClientsSeeWhatIsLeft(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: tenAMinute,
		Serve:  []string{"--headers=both"},
		Server: `
			include authz/authz_server.conf;
			include authz/authz_ratelimit.conf;
			location /       { proxy_pass http://app; }
			location /quiet/ { add_header X-Own 1; proxy_pass http://app; }`,
	})
	names := []string{"RateLimit", "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "Retry-After", "X-Authz-Limit"}
	policy := ` RateLimit-Policy="api";q=10;w=60 X-RateLimit-Limit=10`
	for _, c := range [][3]string{
		{"/", "200", "9"},
		{"/status/404", "404", "8"}, // whatever the application answers
		{"/status/500", "500", "7"},
	} {
		got := s.Send(t, "GET "+c[0], "").Show(names...)
		want := regexp.MustCompile(`^` + c[1] + ` RateLimit="api";r=` + c[2] + `;t=(\d+)` + policy + ` X-RateLimit-Remaining=` + c[2] + ` X-RateLimit-Reset=(\d+)$`)
		if m := want.FindStringSubmatch(got); m == nil || m[1] != m[2] {
			t.Errorf("%s: %s, want %s with one time twice", c[0], got, want)
		}
	}
	if got := s.Send(t, "GET /quiet/", "").Show(names...); got != "200" {
		t.Errorf("a location with an add_header of its own: %s, want none of the server's", got)
	}
	s.SendAll(t, 6, "GET /")
	got := s.Send(t, "GET /", "").Show(names...)
	want := regexp.MustCompile(`^429 RateLimit="api";r=0;t=(\d+)` + policy + ` X-RateLimit-Remaining=0 X-RateLimit-Reset=(\d+) Retry-After=(\d+) X-Authz-Limit=api$`)
	if m := want.FindStringSubmatch(got); m == nil || m[1] != m[2] || m[1] != m[3] {
		t.Errorf("refused: %s, want %s with one time thrice", got, want)
	}
}

func TestADenyRuleIsA403AndAnAllowRuleAsksNobody(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: tenAMinute + `
		[deny.scanners]
		match = { path = "/**/.env" }
		[allow.preflight]
		match = { method = "OPTIONS" }
		[limit.closed]
		match     = { path = "/closed" }
		key       = []
		algorithm = "fixed_window"
		rate      = "0/s"`})
	if got := s.Send(t, "GET /a/.env", "").Show("Retry-After", "RateLimit", "X-Authz-Limit"); got != "403" {
		t.Errorf("denied: %s, want 403", got)
	}
	if got := s.Send(t, "GET /closed", "").Show("Retry-After", "X-Authz-Limit"); got != "429 X-Authz-Limit=closed" {
		t.Errorf("0/s: %s, want a 429 that no wait helps", got)
	}
	// C009: with preflights allowed, they cost nothing.
	if got := s.SendAll(t, 12, "OPTIONS /a"); strings.Contains(got, "429") {
		t.Errorf("preflights: %s, want none refused", got)
	}
	if got := s.Asked(t); got != 0 {
		t.Errorf("Redis decided %d requests, want none", got)
	}
}

// C030: 503 is for a fault behind, never for being over a limit.
func TestWithoutRedisALimitThatSaysDenyIsA503(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: tenAMinute + "\non_error = \"deny\""})
	s.Redis.Close()
	s.Redis.Cmd.Process.Kill()
	<-s.Redis.Exited
	for protocol, send := range s.Both() {
		if got := send(t, "GET /", "").Show("Retry-After", "X-Authz-Limit"); got != "503 Retry-After=1 X-Authz-Limit=api" {
			t.Errorf("%s: %s, want 503 Retry-After=1 X-Authz-Limit=api", protocol, got)
		}
	}
}

// What the application itself answers is never touched.
func TestTheApplicationsOwnRefusalsStay(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{Server: rig.ClosedServer, Limits: strings.Replace(tenAMinute, "10/m", "1000/m", 1)})
	for _, status := range []int{401, 403, 404, 429, 500, 502, 503, 504} {
		for protocol, send := range s.Both() {
			got := send(t, fmt.Sprintf("GET /status/%d", status), "")
			if want := fmt.Sprintf("the application's own %d", status); got.Status != status || got.Body != want {
				t.Errorf("%s: %d %q, want %d %q", protocol, got.Status, got.Body, status, want)
			}
			if got := got.Show("Retry-After", "RateLimit", "X-Authz-Limit"); got != fmt.Sprint(status) {
				t.Errorf("%s: %s, want no header of ours", protocol, got)
			}
		}
	}
}

// The example file, whole but for its addresses.
func TestTheExampleIsAWholeSite(t *testing.T) {
	app := rig.StartApp(t)
	authz := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, `
		[limit.login]
		match     = { zone = "login" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/366d"`))
	conf := rig.Edited(t, "example.conf",
		"listen 80 default_server;", "listen LISTEN default_server;",
		"include authz/authz_upstream_tcp.conf;",
		rig.Edited(t, "authz_upstream_tcp.conf", "server 127.0.0.1:7429;", "server "+authz.Addr+";"),
		"server 127.0.0.1:8080;", "server "+app.Addr+";",
		"/var/log/nginx/access.log", "example.log",
		"/var/www/example.com", "html")
	_, conf, found := strings.Cut(conf, "\nhttp {\n")
	if !found {
		t.Fatal("example.conf has no http{}")
	}
	n := rig.StartNginx(t, conf[:strings.LastIndexByte(conf, '}')], map[string]string{"html/static/a.css": "a style"})
	for _, c := range [][2]string{
		{"POST /login", "200"},
		{"POST /login", "429 X-Authz-Limit=login"},
		{"POST /", "200"},
		{"GET /static/a.css", "200"},
	} {
		if got := n.Send(t, c[0], "").Show("X-Authz-Limit"); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
	n.Quit(t)
	want := regexp.MustCompile(`^127.0.0.1 \[\S+\] "POST /login HTTP/1.1" 429 authz=429 limit=login degraded=$`)
	if lines := strings.Split(n.Read(t, "example.log"), "\n"); !want.MatchString(lines[1]) {
		t.Errorf("logged %q, want %s", lines[1], want)
	}
}
