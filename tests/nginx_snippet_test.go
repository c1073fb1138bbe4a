package tests

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// snippet is what authz snippet writes, with a server's own lines in it.
func snippet(t testing.TB, own string, args ...string) string {
	t.Helper()
	code, text := authz(t, append([]string{"snippet"}, args...)...)
	const place = "    # Yours: listen, server_name, locations.\n"
	if code != 0 || strings.Count(text, place) != 1 {
		t.Fatalf("%v: exit %d\n%s", args, code, text)
	}
	return strings.Replace(text, place, "listen LISTEN; listen LISTEN_H2 http2; location / { proxy_pass http://app; }"+own, 1)
}

// What snippet writes works as it is, in one piece, and hands on the headers that limits read.
func TestASnippetIsAWholeConfiguration(t *testing.T) {
	t.Parallel()
	const limits = undoLimits + `
		[limit.export]
		match     = { zone = "export" }
		key       = []
		algorithm = "fixed_window"
		rate      = "1/366d"
		[limit.names]
		match     = { path = "/names", header = { "1-a--B-" = "*" } }
		key       = ["header:Host", "header:1-a--B-"]
		missing   = "skip"
		algorithm = "fixed_window"
		rate      = "1/366d"`
	file := limitsFile(t, limits)
	const zone = `location /export { set $authz_zone "export"; proxy_pass http://app; }`
	app := startApp(t)
	check := func(s *site) {
		t.Helper()
		same(t, s.sendAll(t, 3, "GET /login"), "200 200 429")
		same(t, s.sendAll(t, 4, "GET /plan", "X-API-Key: k1"), "200 200 200 429")
		same(t, s.sendAll(t, 5, "GET /plan", "X-API-Key: s3cr3t"), "200 200 200 200 429")
		same(t, s.sendAll(t, 2, "GET /export"), "200 429")
		same(t, s.sendAll(t, 2, "GET /else"), "200 200")
		for _, host := range []string{"a.test", "b.test"} {
			same(t, s.sendAll(t, 2, "GET /names", "1-A--b-: x", "Host: "+host), "200 429")
		}
		same(t, fmt.Sprint(s.sendRaw(t, "GET /names HTTP/1.0\r\n1-A--b-: x\r\n\r\n").status), "200")
		if got := s.send(t, "GET /export", ""); got.header.Get("Retry-After") == "" || got.header.Get("X-Authz-Limit") != "export" {
			t.Errorf("%+v, want Retry-After and X-Authz-Limit", got.header)
		}
		admitted := s.send(t, "GET /plan", "", "X-API-Key: k2")
		same(t, admitted.header.Get("RateLimit-Policy")+" "+admitted.header.Get("X-RateLimit-Limit")+" "+admitted.header.Get("X-RateLimit-Remaining"), `"plan";q=3;w=86400 3 2`)
	}
	upstream := fmt.Sprintf("upstream app { server %s; }\n", app.addr)
	socket := "unix:" + filepath.Join(socketDir(t), "authz.sock")
	startAuthz(t, "--limits="+file, "--listen="+socket, "--headers=both")
	check(&site{nginxServer: startNginx(t, upstream+snippet(t, zone, file, "--upstream="+socket, "--headers=both", "--admitted-headers"), nil)})

	policy := filepath.Join(t.TempDir(), "limits.json")
	replaceFile(t, policy, string(compile(t, limits).JSON()))
	r := startRedis(t)
	text := snippet(t, zone, file, "--for=openresty", "--headers=both", "--admitted-headers", "--policy="+policy, "--redis=unix:"+r.socket)
	text = strings.Replace(text, "lua_package_path \"/usr/share/authz/lua/?.lua;;\";\n", "", 1)
	check(&site{nginxServer: startPackNginx(t, 2, upstream+text, nil)})

	// Of a dead authz, --dead says what becomes of requests.
	for _, one := range []struct{ dead, headers, want string }{{"closed", "ietf", "503"}, {"open", "legacy", "200"}} {
		s := &site{nginxServer: startNginx(t, upstream+snippet(t, "", file, "--upstream=unix:/nowhere", "--dead="+one.dead, "--headers="+one.headers), nil)}
		s.mayLog = []string{"connect() to unix:/nowhere failed"}
		same(t, s.sendAll(t, 1, "GET /"), one.want)
		same(t, lintOf(t, s.nginxServer), "")
	}
}
