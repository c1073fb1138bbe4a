package nginx

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

// onceOnly refuses everything after a first request, and some for other reasons.
const onceOnly = `
	[limit.once]
	key       = ["ip"]
	algorithm = "fixed_window"
	rate      = "1/366d"
	[deny.secret]
	match = { path = "/**/secret" }
	[allow.preflight]
	match = { method = "OPTIONS" }`

// C010, HSTS: what a site puts on every answer is on refusals too, in one file of its own.
func TestASitesOwnHeadersAreOnRefusals(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: onceOnly,
		Server: `
			include authz/authz_server.conf;
			add_header Strict-Transport-Security max-age=31536000 always;
			add_header Access-Control-Allow-Origin https://app.example always;
			location / { proxy_pass http://app; }`,
		Files: map[string]string{"authz/site_refusal.conf": `
			add_header Strict-Transport-Security max-age=31536000 always;
			add_header Access-Control-Allow-Origin https://app.example always;
			add_header Access-Control-Expose-Headers "Retry-After, RateLimit, RateLimit-Policy" always;`},
	})
	site := " Strict-Transport-Security=max-age=31536000 Access-Control-Allow-Origin=https://app.example"
	expose := " Access-Control-Expose-Headers=Retry-After, RateLimit, RateLimit-Policy"
	show := func(line string) string {
		return s.Send(t, line, "").Show("Strict-Transport-Security", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "X-Authz-Limit")
	}
	for _, c := range [][2]string{
		{"GET /", "200" + site},
		{"GET /", "429" + site + expose + " X-Authz-Limit=once"},
		{"GET /secret", "403" + site + expose},
		{"OPTIONS /", "200" + site}, // the preflight itself is never refused
	} {
		if got := show(c[0]); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}

// C013, R09: a page of the site's own with the 429, its headers still there, the check not repeated.
func TestARefusalCanHaveAPage(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: onceOnly,
		Server: `
			include authz/authz_server.conf;
			recursive_error_pages on;
			error_page 429 /limited.html;
			location = /limited.html { internal; root html; include authz/authz_refusal.conf; }
			location / { proxy_pass http://app; }`,
		Files: map[string]string{"html/limited.html": "not so fast"},
	})
	for i, send := range []rig.Sender{s.Send, s.SendH2} {
		s.From = fmt.Sprintf("127.0.0.%d", 2+i)
		if got := send(t, "GET /status/429", ""); got.Body != "the application's own 429" {
			t.Errorf("HTTP/%d: %q, want the application's own 429", i+1, got.Body)
		}
		got := send(t, "POST /", "0123456789")
		text := got.Show("Retry-After", "RateLimit", "X-Authz-Limit") + " " + got.Body
		if want := regexp.MustCompile(`^429 Retry-After=\d+ RateLimit="once";r=0;t=\d+ X-Authz-Limit=once not so fast$`); !want.MatchString(text) {
			t.Errorf("HTTP/%d: %s, want %s", i+1, text, want)
		}
		got = send(t, "GET /secret", "")
		if got.Status != 403 || !strings.Contains(got.Body, "403 Forbidden") {
			t.Errorf("HTTP/%d: %d %q, want nginx's 403", i+1, got.Status, got.Body)
		}
	}
	if got := s.Asked(t); got != 4 {
		t.Errorf("Redis decided %d requests, want 4: the pages are not checked", got)
	}
}

// What authz said of a request that it refused outlives all that nginx makes of it afterwards: the
// client gets the headers, the log the words, and nothing is checked or charged again. The first redirect
// of each is that of error_page.
func TestWhatWasSaidOfARefusalOutlivesRedirects(t *testing.T) {
	ways := []string{"end", "index", "try", "named", "rewrite", "break", "accel", "ssi", "thrice"}
	s := rig.StartSite(t, rig.SiteConf{
		Limits: onceOnly,
		Serve:  []string{"--refusals-max=0"}, // every check is one that Redis sees
		Http:   `log_format captured '$request_uri $status authz=$authz_status limit=$authz_limit left=$authz_ratelimit';`,
		Server: `
			include authz/authz_server.conf;
			access_log access.log captured;
			root html;
			recursive_error_pages on;
			include authz/authz_refusal.conf;
			error_page 429 /way/$arg_way/;
			location /            { proxy_pass http://app; }
			location /way/        { internal; }
			location /way/try/    { internal; try_files $uri/nothing /way/end/; }
			location /way/named/  { internal; try_files $uri/nothing @end; }
			location @end         { rewrite ^ /way/end/ last; }
			location /way/rewrite/ { internal; rewrite ^ /way/end/ last; }
			location /way/break/  { internal; rewrite ^ /way/end/index.html break; }
			location /way/accel/  { internal; proxy_pass http://app/way?set=X-Accel-Redirect:/way/end/; }
			location /way/ssi/    { internal; ssi on; }
			location /way/thrice/ { internal; proxy_pass http://app/way?set=X-Accel-Redirect:/way/named/; }`,
		Files: map[string]string{
			"html/way/end/index.html":   "the end",
			"html/way/index/index.html": "the end",
			"html/way/ssi/index.html":   `the <!--#include virtual="/way/end/index.html" -->`,
		},
	})
	for protocol, send := range map[int]rig.Sender{1: s.Send, 2: s.SendH2} {
		s.From = fmt.Sprintf("127.0.0.%d", protocol+1)
		send(t, "GET /first", "")
		for _, way := range ways {
			got := send(t, "GET /?way="+way, "")
			text := got.Show("Retry-After", "RateLimit", "RateLimit-Policy", "X-Authz-Limit") + " " + got.Body
			if !outlived.MatchString(text) {
				t.Errorf("%s over HTTP/%d: %s, want %s", way, protocol, text, outlived)
			}
		}
	}
	if got := s.Asked(t); got != 2*(1+len(ways)) {
		t.Errorf("Redis decided %d requests, want %d", got, 2*(1+len(ways)))
	}
	s.Quit(t)
	log := s.Read(t, "access.log")
	for _, way := range ways {
		want := "/?way=" + way + ` 429 authz=429 limit=once left=\x22once\x22;r=0;t=`
		if rig.CountLines(log, want) != 2 {
			t.Errorf("access log has not twice %q:\n%s", want, log)
		}
	}
}

var outlived = regexp.MustCompile(`^429 Retry-After=\d+ RateLimit="once";r=0;t=\d+ RateLimit-Policy="once";q=1;w=31622400 X-Authz-Limit=once (the )?the end$`)

// The example file: a limited client gets a page from the cache, or a static one, and nobody else does.
func TestALimitedClientGetsADegradedAnswer(t *testing.T) {
	dir := t.TempDir()
	s := rig.StartSite(t, rig.SiteConf{
		Limits: onceOnly,
		Server: "location / { return 204; }",
		Http: rig.Edited(t, "example_degraded.conf",
			"listen 80;", "listen LISTEN; listen LISTEN_H2 http2; server_name news.test;",
			"127.0.0.1:7431;", "unix:"+rig.SocketDir(t)+"/nothing.sock;",
			"127.0.0.1:8080;", "app;",
			"/var/lib/nginx/authz", dir+"/cache",
			"/usr/share/nginx/html", "html"),
		Files: map[string]string{"html/busy.html": "come back later"},
	})
	for _, c := range []struct{ from, line, want string }{
		{"2", "GET /news/N1", "200 app GET /news/N1 0 bytes"},
		{"3", "GET /news/N2?set=X-Accel-Expires:@1", "200 app GET /news/N2?set=X-Accel-Expires:@1 0 bytes"},
		{"2", "GET /news/N1", "200 X-Authz-Limit=once app GET /news/N1 0 bytes"}, // from the cache
		{"2", "GET /news/N2?set=X-Accel-Expires:@1", // expired long ago, and still better than nothing
			"200 X-Authz-Limit=once app GET /news/N2?set=X-Accel-Expires:@1 0 bytes"},
		{"2", "GET /news/N3", "429 X-Authz-Limit=once"}, // not in the cache
		{"2", "GET /shop/1", "200 X-Authz-Limit=once come back later"},
		{"2", "GET /news/secret", "403"},
		{"2", "GET /shop/secret", "403"},
		{"4", "GET /shop/1", "200 app GET /shop/1 0 bytes"},
	} {
		for protocol, send := range map[int]rig.Sender{1: s.Send, 2: s.SendH2} {
			s.From = fmt.Sprintf("127.0.%d.%s", protocol, c.from)
			line := strings.Replace(c.line, "N", fmt.Sprint(protocol), 1) // a page each, so that both fill the cache
			want := strings.ReplaceAll(c.want, "N", fmt.Sprint(protocol))
			got := send(t, line, "", "Host: news.test")
			text := got.Show("X-Authz-Limit")
			if got.Status == 200 {
				text += " " + got.Body
			}
			if text != want {
				t.Errorf("%s over HTTP/%d: %s, want %s", line, protocol, text, want)
			}
		}
	}
	s.Authz.Stop(t)
	s.MayLog = []string{"authz.sock failed (2: No such file or directory)"}
	for _, line := range []string{"GET /news/11", "GET /shop/1"} {
		if got := s.Send(t, line, "", "Host: news.test").Show("Retry-After"); got != "503 Retry-After=1" {
			t.Errorf("%s without authz: %s, want 503 Retry-After=1", line, got)
		}
	}
	if got := s.App.Asked.Load(); got != 6 {
		t.Errorf("the application was asked %d times, want 6", got)
	}
}

// A 403 that is not authz's own: of `deny`, of a folder without an index, of an intercepted application.
func TestTheServersOwn403Stays(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: strings.Replace(onceOnly, "1/366d", "100/366d", 1),
		Server: `
			include authz/authz_server.conf;
			root html;
			location /folder/    { }
			location /nobody/    { deny all; }
			location /intercept/ { proxy_intercept_errors on; proxy_pass http://app/; }
			location /return/    { return 403; }
			location /           { proxy_pass http://app; }`,
		Files: map[string]string{"html/folder/file": ""},
	})
	for _, path := range []string{"/folder/", "/nobody/", "/intercept/status/403", "/return/"} {
		got := s.Send(t, "GET "+path, "")
		if text := got.Show("Retry-After", "RateLimit", "X-Authz-Limit"); text != "403" {
			t.Errorf("%s: %s, want 403 without our headers", path, text)
		}
		if !strings.Contains(got.Body, "403 Forbidden") {
			t.Errorf("%s: body %q, want nginx's", path, got.Body)
		}
	}
	// `deny` and `return` come before any check; the other two were admitted first.
	if got := s.Counted(t, "authz:v1:{ip=127.0.0.1}:once:fw"); got != 2 {
		t.Errorf("%d charged, want 2", got)
	}
}

// A location's own error_page drops those of the server, ours among them, and its own auth_request_set
// what is taken from the answer: a refusal is a bare 403 there, until the location repeats the line.
func TestALocationsErrorPageHasToRepeatOurs(t *testing.T) {
	s := rig.StartSite(t, rig.SiteConf{
		Limits: onceOnly,
		Server: `
			include authz/authz_server.conf;
			error_page 403 /never.html;
			location /drops/   { error_page 404 /404.html; proxy_pass http://app; }
			location /sets/    { auth_request_set $mine $upstream_status; proxy_pass http://app; }
			location /repeats/ { error_page 404 /404.html; error_page 403 = @authz_denied; proxy_pass http://app; }
			location /         { proxy_pass http://app; }`,
	})
	for _, c := range [][2]string{
		{"/", "200"},
		{"/", "429 X-Authz-Limit=once"},
		{"/drops/", "403"},
		{"/sets/", "403"},
		{"/repeats/", "429 X-Authz-Limit=once"},
	} {
		if got := s.Send(t, "GET "+c[0], "").Show("X-Authz-Limit"); got != c[1] {
			t.Errorf("%s: %s, want %s", c[0], got, c[1])
		}
	}
}
