package nginx

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"authz/tests/rig"
)

// snippet is what authz snippet writes, with a server's own lines in it.
func snippet(t testing.TB, own string, args ...string) string {
	t.Helper()
	code, text := rig.Authz(t, append([]string{"snippet"}, args...)...)
	const place = "    # Yours: listen, server_name, locations.\n"
	if code != 0 || strings.Count(text, place) != 1 {
		t.Fatalf("%v: exit %d\n%s", args, code, text)
	}
	return strings.Replace(text, place, "listen LISTEN; listen LISTEN_H2 http2; location / { proxy_pass http://app; }"+own, 1)
}

// What snippet writes works as it is, in one piece, and hands on the headers that limits read.
func TestASnippetIsAWholeConfiguration(t *testing.T) {
	t.Parallel()
	const limits = rig.UndoLimits + `
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
	file := rig.LimitsFile(t, limits)
	const zone = `location /export { set $authz_zone "export"; proxy_pass http://app; }`
	app := rig.StartApp(t)
	check := func(s *rig.Site) {
		t.Helper()
		rig.Same(t, s.SendAll(t, 3, "GET /login"), "200 200 429")
		rig.Same(t, s.SendAll(t, 4, "GET /plan", "X-API-Key: k1"), "200 200 200 429")
		rig.Same(t, s.SendAll(t, 5, "GET /plan", "X-API-Key: s3cr3t"), "200 200 200 200 429")
		rig.Same(t, s.SendAll(t, 2, "GET /export"), "200 429")
		rig.Same(t, s.SendAll(t, 2, "GET /else"), "200 200")
		for _, host := range []string{"a.test", "b.test"} {
			rig.Same(t, s.SendAll(t, 2, "GET /names", "1-A--b-: x", "Host: "+host), "200 429")
		}
		rig.Same(t, fmt.Sprint(s.SendRaw(t, "GET /names HTTP/1.0\r\n1-A--b-: x\r\n\r\n").Status), "200")
		if got := s.Send(t, "GET /export", ""); got.Header.Get("Retry-After") == "" || got.Header.Get("X-Authz-Limit") != "export" {
			t.Errorf("%+v, want Retry-After and X-Authz-Limit", got.Header)
		}
		admitted := s.Send(t, "GET /plan", "", "X-API-Key: k2")
		rig.Same(t, admitted.Header.Get("RateLimit-Policy")+" "+admitted.Header.Get("X-RateLimit-Limit")+" "+admitted.Header.Get("X-RateLimit-Remaining"), `"plan";q=3;w=86400 3 2`)
	}
	upstream := fmt.Sprintf("upstream app { server %s; }\n", app.Addr)
	socket := "unix:" + filepath.Join(rig.SocketDir(t), "authz.sock")
	rig.StartAuthz(t, "--limits="+file, "--listen="+socket, "--headers=both")
	check(&rig.Site{NginxServer: rig.StartNginx(t, upstream+snippet(t, zone, file, "--upstream="+socket, "--headers=both", "--admitted-headers"), nil)})

	policy := filepath.Join(t.TempDir(), "limits.json")
	rig.ReplaceFile(t, policy, string(rig.Compile(t, limits).JSON()))
	r := rig.StartRedis(t)
	text := snippet(t, zone, file, "--for=openresty", "--headers=both", "--admitted-headers", "--policy="+policy, "--redis=unix:"+r.Socket)
	text = strings.Replace(text, "lua_package_path \"/usr/share/authz/lua/?.lua;;\";\n", "", 1)
	check(&rig.Site{NginxServer: rig.StartPackNginx(t, 2, upstream+text, nil)})

	// Of a dead authz, --dead says what becomes of requests.
	for _, one := range []struct{ dead, headers, want string }{{"closed", "ietf", "503"}, {"open", "legacy", "200"}} {
		s := &rig.Site{NginxServer: rig.StartNginx(t, upstream+snippet(t, "", file, "--upstream=unix:/nowhere", "--dead="+one.dead, "--headers="+one.headers), nil)}
		s.MayLog = []string{"connect() to unix:/nowhere failed"}
		rig.Same(t, s.SendAll(t, 1, "GET /"), one.want)
		rig.Same(t, lintOf(t, s.NginxServer), "")
	}
}
