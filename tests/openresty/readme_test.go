package openresty

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
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
	r, app := rig.StartRedis(t), rig.StartApp(t)
	// A nginxServer as startNginx makes it, but for the configuration.
	n := &rig.NginxServer{Dir: t.TempDir(), Exited: make(chan struct{})}
	n.Addr = "127.0.0.1:" + rig.FreePort(t)
	metrics := "127.0.0.1:" + rig.FreePort(t)
	if err := os.Symlink("/usr/lib/nginx/modules", filepath.Join(n.Dir, "modules")); err != nil {
		t.Fatal(err)
	}
	elsewhere := strings.NewReplacer("/usr/share/authz", n.Dir+"/share", "/etc/nginx", n.Dir, "/etc/authz", n.Dir+"/etc",
		"/run/redis/redis-server.sock", r.Socket, "/var/log/nginx", n.Dir)
	install := fenced(t, "../lua/README.md", "sh")
	if len(install) != 1 {
		t.Fatalf("%d blocks of sh, want the one", len(install))
	}
	sh := exec.Command("sh", "-ec", elsewhere.Replace(install[0]))
	sh.Dir = ".."
	sh.Env = append(os.Environ(), "PATH="+filepath.Dir(rig.AuthzBinary(t))+":"+os.Getenv("PATH"))
	if said, err := sh.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	conf := elsewhere.Replace(blocks[0])
	for _, pair := range [][2]string{
		{`timeout = "50ms"`, `timeout = "20s"`},
		{"listen 80;", "listen " + n.Addr + ";"},
		{"listen 127.0.0.1:9145;", "listen " + metrics + ";"},
		{"http://127.0.0.1:8080", "http://" + app.Addr},
	} {
		if !strings.Contains(conf, pair[0]) {
			t.Fatalf("the nginx.conf has no %q", pair[0])
		}
		conf = strings.ReplaceAll(conf, pair[0], pair[1])
	}
	n.Write(t, "nginx.conf", conf)
	n.Cmd = exec.Command("nginx", "-p", n.Dir, "-c", filepath.Join(n.Dir, "nginx.conf"), "-e", "stderr",
		"-g", "daemon off; user root; pid nginx.pid; error_log stderr notice; error_log error.log notice;")
	rig.AwaitLine(t, n.Cmd, n.Exited, "start worker process ")
	t.Cleanup(func() {
		n.Quit(t)
		n.CheckErrorLog(t)
		if log := n.Read(t, "error.log"); strings.Contains(log, "[warn]") {
			t.Errorf("the error log has a warning:\n%s", log)
		}
	})

	for i := range 6 {
		want := "200"
		if i == 5 {
			want = "429 RateLimit-Policy=\"login\";q=5;w=60 X-Authz-Limit=login"
		}
		rig.Same(t, n.Send(t, "POST /login", "name=me").Show("RateLimit-Policy", "X-Authz-Limit"), want)
	}
	rig.Same(t, n.Send(t, "GET /export/all", "").Body, "app GET /export/all 0 bytes")
	site := n.Addr
	n.Addr = metrics
	rig.Same(t, n.Metric(t, `authz_decisions_total{limit="login",verdict="limited"}`), "1")
	n.Addr = site
	if log := n.Read(t, "access.log"); !strings.Contains(log, `"POST /login HTTP/1.1" 429 429 login `) {
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
	r := rig.StartRedis(t)
	if err := r.Do(t.Context(), account...).Err(); err != nil {
		t.Fatal(err)
	}
	s := rig.StartPack(t, nil, fmt.Sprintf(`redis = {socket = "%s", user = "pack", password = "pass", timeout = "20s"}`, r.Socket), rig.SiteConf{
		Limits: `
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
		Server: fmt.Sprintf(`
			location = /captcha { content_by_lua_block { ngx.print("are you a robot") } }
			location = /sms {
				access_by_lua_block { }
				content_by_lua_block {
					local number = "555"
					%s
				}
			}
			location / { proxy_pass http://app; }`, blocks[1]),
		Access: blocks[0],
	})
	rig.Same(t, s.Send(t, "GET /login", "").Body, "app GET /login 0 bytes")
	rig.Same(t, s.Send(t, "GET /login", "").Body, "are you a robot")
	rig.Same(t, s.Send(t, "GET /else", "").Body, "app GET /else 0 bytes")
	rig.Same(t, s.SendAll(t, 3, "GET /log"), "200 200 429")
	rig.Same(t, fmt.Sprint(r.ZCard(t.Context(), "authz:v1:{log}:log:sw").Val()), "2")
	rig.Same(t, s.Send(t, "GET /sms", "").Body+s.Send(t, "GET /sms", "").Body+s.Send(t, "GET /sms", "").Body, "")
	if got := s.Send(t, "GET /sms", "").Body; !regexp.MustCompile(`^wait 1[12]\d\d s\n$`).MatchString(got) {
		t.Errorf("the fourth gets %q, want to wait 20 minutes", got)
	}
	rig.Same(t, fmt.Sprint(r.Keys(t.Context(), "authz:sms:*").Val()), "[authz:sms:555]")
}
