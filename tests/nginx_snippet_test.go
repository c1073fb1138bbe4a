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
		if got := s.send(t, "GET /export", ""); got.header.Get("Retry-After") == "" || got.header.Get("X-Authz-Limit") != "export" {
			t.Errorf("%+v, want Retry-After and X-Authz-Limit", got.header)
		}
	}
	upstream := fmt.Sprintf("upstream app { server %s; }\n", app.addr)
	socket := "unix:" + filepath.Join(socketDir(t), "authz.sock")
	startAuthz(t, "--limits="+file, "--listen="+socket)
	check(&site{nginxServer: startNginx(t, upstream+snippet(t, zone, file, "--upstream="+socket), nil)})

	policy := filepath.Join(t.TempDir(), "limits.json")
	replaceFile(t, policy, string(compile(t, limits).JSON()))
	r := startRedis(t)
	text := snippet(t, zone, file, "--for=openresty", "--policy="+policy, "--redis=unix:"+r.socket)
	text = strings.Replace(text, "lua_package_path \"/usr/share/authz/lua/?.lua;;\";\n", "", 1)
	check(&site{nginxServer: startPackNginx(t, 2, upstream+text, nil)})

	// Of a dead authz, --dead says what becomes of requests.
	for dead, want := range map[string]string{"closed": "503", "open": "200"} {
		s := &site{nginxServer: startNginx(t, upstream+snippet(t, "", file, "--upstream=unix:/nowhere", "--dead="+dead), nil)}
		s.mayLog = []string{"connect() to unix:/nowhere failed"}
		same(t, s.sendAll(t, 1, "GET /"), want)
	}
}
