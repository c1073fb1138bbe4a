package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fenced are the code blocks of a language in a Markdown file.
func fenced(t testing.TB, file, language string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// The nginx.conf of lua/README.md runs as it stands, with what the lines above it install; only what another machine has elsewhere is replaced.
func TestTheNginxConfOfTheReadmeRuns(t *testing.T) {
	blocks := fenced(t, "../lua/README.md", "nginx")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks of nginx, want the one", len(blocks))
	}
	r, app := startRedis(t), startApp(t)
	// A nginxServer as startNginx makes it, but for the configuration.
	n := &nginxServer{dir: t.TempDir(), exited: make(chan struct{})}
	n.addr = "127.0.0.1:" + freePort(t)
	metrics := "127.0.0.1:" + freePort(t)
	if err := os.Symlink("/usr/lib/nginx/modules", filepath.Join(n.dir, "modules")); err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.NewReplacer("/usr/share/authz", n.dir+"/share", "/etc/nginx", n.dir, "/etc/authz", n.dir+"/etc",
		"/run/redis/redis-server.sock", r.socket, "/var/log/nginx", n.dir)
	install := fenced(t, "../lua/README.md", "sh")
	if len(install) != 1 {
		t.Fatalf("%d blocks of sh, want the one", len(install))
	}
	sh := exec.Command("sh", "-ec", elsewhere.Replace(install[0]))
	sh.Dir = ".."
	sh.Env = append(os.Environ(), "PATH="+filepath.Dir(authzBinary(t))+":"+os.Getenv("PATH"))
	if said, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	conf := elsewhere.Replace(blocks[0])
	for _, pair := range [][2]string{
		{`timeout = "50ms"`, `timeout = "20s"`},
		{"listen 80;", "listen " + n.addr + ";"},
		{"listen 127.0.0.1:9145;", "listen " + metrics + ";"},
		{"http://127.0.0.1:8080", "http://" + app.addr},
	} {
		if !strings.Contains(conf, pair[0]) {
			t.Fatalf("the nginx.conf has no %q", pair[0])
		}
		conf = strings.ReplaceAll(conf, pair[0], pair[1])
	}
	n.write(t, "nginx.conf", conf)
	n.cmd = exec.Command("nginx", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", "stderr",
		"-g", "daemon off; user root; pid nginx.pid; error_log stderr notice; error_log error.log notice;")
	awaitLine(t, n.cmd, n.exited, "start worker process ")
	t.Cleanup(func() {
		n.quit(t)
		n.checkErrorLog(t)
		if log := n.read(t, "error.log"); strings.Contains(log, "[warn]") {
			t.Errorf("the error log has a warning:\n%s", log)
		}
	})

	for i := range 6 {
		want := "200"
		if i == 5 {
			want = "429 RateLimit-Policy=\"login\";q=5;w=60 X-Authz-Limit=login"
		}
		same(t, n.send(t, "POST /login", "name=me").show("RateLimit-Policy", "X-Authz-Limit"), want)
	}
	same(t, n.send(t, "GET /export/all", "").body, "app GET /export/all 0 bytes")
	site := n.addr
	n.addr = metrics
	same(t, n.metric(t, `authz_decisions_total{limit="login",verdict="limited"}`), "1")
	n.addr = site
	if log := n.read(t, "access.log"); !strings.Contains(log, `"POST /login HTTP/1.1" 429 429 login `) {
		t.Errorf("the access log has no refusal:\n%s", log)
	}
}

// What lua/README.md shows of Lua does what it says, for a whole server.
func TestTheLuaOfTheReadmeRuns(t *testing.T) {
	blocks := fenced(t, "../lua/README.md", "lua")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of Lua, want two", len(blocks))
	}
	text, err := os.ReadFile("../lua/README.md")
	if err != nil {
		t.Fatal(err)
	}
	// By an account that may do what the text says, and no more.
	account := []any{"acl", "setuser", "pack", "on", ">pass"}
	for _, rule := range strings.Fields(regexp.MustCompile("`(\\+evalsha [^`]*)`").FindStringSubmatch(string(text))[1]) {
		account = append(account, rule)
	}
	r := startRedis(t)
	if err := r.Do(t.Context(), account...).Err(); err != nil {
		t.Fatal(err)
	}
	s := startPack(t, nil, fmt.Sprintf(`redis = {socket = "%s", user = "pack", password = "pass", timeout = "20s"}`, r.socket), siteConf{
		limits: `
			[limit.login]
			match = { path = "/login" }
			key = []
			algorithm = "fixed_window"
			rate = "1/366d"
			[limit.log]
			match = { path = "/log" }
			key = []
			algorithm = "sliding_window"
			rate = "2/366d"`,
		server: fmt.Sprintf(`
			location = /captcha { content_by_lua_block { ngx.print("are you a robot") } }
			location = /sms {
				access_by_lua_block { }
				content_by_lua_block {
					local number = "555"
					%s
				}
			}
			location / { proxy_pass http://app; }`, blocks[1]),
		access: blocks[0],
	})
	same(t, s.send(t, "GET /login", "").body, "app GET /login 0 bytes")
	same(t, s.send(t, "GET /login", "").body, "are you a robot")
	same(t, s.send(t, "GET /else", "").body, "app GET /else 0 bytes")
	same(t, s.sendAll(t, 3, "GET /log"), "200 200 429")
	same(t, fmt.Sprint(r.ZCard(t.Context(), "authz:v1:{log}:log:sw").Val()), "2")
	same(t, s.send(t, "GET /sms", "").body+s.send(t, "GET /sms", "").body+s.send(t, "GET /sms", "").body, "")
	if got := s.send(t, "GET /sms", "").body; !regexp.MustCompile(`^wait 1[12]\d\d s\n$`).MatchString(got) {
		t.Errorf("the fourth gets %q, want to wait 20 minutes", got)
	}
	same(t, fmt.Sprint(r.Keys(t.Context(), "authz:sms:*").Val()), "[authz:sms:555]")
}
