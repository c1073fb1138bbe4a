package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/internal/testkit"
	"authz/nginx"
	"authz/nginx/lint"
)

// Each vector is a configuration, a dashed line, and all that is wrong with it.
func TestLintFindsWhatTheVectorsSayAndNothingElse(t *testing.T) {
	vectors, err := filepath.Glob("../../tests/vectors/lint/*.conf")
	if err != nil || len(vectors) < 50 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	dir := confFolder(t, "")
	for _, path := range vectors {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		conf, want, ok := strings.Cut(string(text), "-----\n")
		if !ok {
			t.Fatalf("%s: no dashed line", path)
		}
		args := []string{"lint", filepath.Join(dir, "nginx.conf")}
		if err := os.WriteFile(args[1], []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		if names, ok := strings.CutPrefix(conf, "# limits: "); ok {
			names, _, _ = strings.Cut(names, "\n")
			key := `"` + strings.ReplaceAll(names, ", ", `", "`) + `"`
			args = append(args, "--limits="+testkit.WriteFile(t, "limits.toml", "[limit.t]\nkey = ["+key+"]\nmissing = \"skip\"\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n"))
		}
		code := 0
		if want != "" {
			code = 1
		}
		if got := command(t, dir+"/", "", args...); got != fmt.Sprintf("exit %d\n%s", code, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", filepath.Base(path), got, want)
		}
	}
}

// confFolder is a folder with this nginx.conf and the shipped includes.
func confFolder(t testing.TB, conf string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := nginx.Files.ReadDir(".")
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "authz"), 0o700)
	}
	for _, f := range files {
		text, _ := nginx.Files.ReadFile(f.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "authz", f.Name()), text, 0o600)
		}
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// What we ship, and write, has nothing wrong with it.
func TestLintFindsNothingInOurOwnConfigurations(t *testing.T) {
	limits := testkit.WriteFile(t, "limits.toml", tokens)
	check := func(conf string) {
		t.Helper()
		dir := confFolder(t, conf)
		if got := command(t, dir+"/", "", "lint", filepath.Join(dir, "nginx.conf"), "--limits="+limits); got != "exit 0\n" {
			t.Errorf("%s\n%s", conf, got)
		}
	}
	shipped := func(name string) string {
		text, err := nginx.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const two = "include authz/authz.conf; include authz/authz_upstream_unix.conf;"
	check(shipped("example.conf"))
	check("http {" + two + shipped("example_degraded.conf") + "}")
	check("http {" + two + "server { include authz/authz_server_open.conf; include authz/authz_ratelimit.conf; }}")
	for _, args := range [][]string{{"--for=nginx"}, {"--for=nginx", "--dead=open", "--upstream=unix:/run/authz/authz.sock"}, {"--for=openresty", "--redis=unix:/run/redis.sock"}} {
		_, conf, _ := strings.Cut(command(t, "", "", append([]string{"snippet", limits}, args...)...), "exit 0\n")
		if conf == "" {
			t.Errorf("%v: nothing", args)
		}
		check("events { }\nhttp {\n" + conf + "}\n")
	}
}

func TestWhatIsNoConfigurationIsAnError(t *testing.T) {
	check := func(want, conf string) {
		t.Helper()
		dir := confFolder(t, conf)
		if got := command(t, dir+"/", "", "lint", filepath.Join(dir, "nginx.conf")); got != "exit 1\nauthz: lint: "+want+"\n" {
			t.Errorf("%s: got\n%s\nwant\n%s", conf, got, want)
		}
	}
	check("nginx.conf:1: want } at the end", "http {")
	check("nginx.conf:2: } closes nothing", "http { }\n}")
	check("nginx.conf:3: want ; after 80", "http {\nserver {\nlisten 80 }\n}")
	check("nginx.conf:1: ';' without a name before it", ";")
	check(`nginx.conf:1: want " at the end`, `http { a "b;`)
	check("nginx.conf:2: include missing.conf: no such file", "http {\ninclude missing.conf;\n}")
	check("nginx.conf:1: include n*.conf: nginx.conf would include itself", "include n*.conf; include n*.conf;")
	check("nginx.conf:1: want } at the end", `http { init_by_lua_block { local a = "}`)
	check("nginx.conf:1: more than 50 braces within each other", strings.Repeat("a {", 60))
	check("nginx.conf: no http{} in it, want the nginx.conf that includes it", "server { listen 80; }")
	dir := confFolder(t, "include 1.conf;")
	for i := 1; i <= 60; i++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i, ".conf")), fmt.Appendf(nil, "include %d.conf;", i+1), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := command(t, dir+"/", "", "lint", filepath.Join(dir, "nginx.conf")); got != "exit 1\nauthz: lint: 51.conf: more than 100000 files, or 50 within each other, want less\n" {
		t.Error(got)
	}
	if got := command(t, "", "", "lint", "/nowhere/nginx.conf"); got != "exit 1\nauthz: lint: open /nowhere/nginx.conf: no such file or directory\n" {
		t.Error(got)
	}
}

func TestLintHasThreeExitCodes(t *testing.T) {
	dir := confFolder(t, "http {\n  server { real_ip_header X-Forwarded-For; }\n}\n")
	conf, bad := filepath.Join(dir, "nginx.conf"), testkit.WriteFile(t, "bad.toml", "[limit.a]\n")
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, dir+"/", "", append([]string{"lint"}, args...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	check(`exit 1
[{"file":"nginx.conf","line":2,"what":"real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy"}]
`, conf, "--json")
	check("exit 0\n[]\n", filepath.Join(confFolder(t, "http { }"), "nginx.conf"), "--json")
	check(command(t, dir+"/", "", "check", bad), conf, "--limits="+bad)
	check("exit 2\nauthz: expected \"<nginx.conf>\"; see authz lint --help\n")
	check("exit 2\nauthz: unknown flag --fix; see authz lint --help\n", conf, "--fix")
}

// An include is relative to the folder of nginx.conf, whatever includes it; a pattern may meet nothing, a name may not.
func TestLintNamesTheFileThatIsIncluded(t *testing.T) {
	dir := confFolder(t, "http {\n  include sites/*.conf;\n  include none/*.conf;\n}\n")
	for name, text := range map[string]string{
		"sites/b.conf": "server {\n  include sites/inner/real.inc;\n}\n",
		"sites/a.conf": "server {\n\n  real_ip_header X-A;\n}\n", "sites/inner/real.inc": "\n\n\nreal_ip_header X-B;",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const what = ": real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy\n"
	want := "exit 1\nsites/a.conf:3" + what + "sites/inner/real.inc:4" + what
	if got := command(t, dir+"/", "", "lint", filepath.Join(dir, "nginx.conf")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Whatever the text is, it is read or refused, and lint says what it says.
func FuzzLint(f *testing.F) {
	vectors, _ := filepath.Glob("../../tests/vectors/lint/*.conf")
	for _, path := range vectors {
		text, _ := os.ReadFile(path)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		conf, _ := nginx.Parse("nginx.conf", text)
		for _, w := range lint.Lint(conf, []string{"x-api-key", "cookie"}) {
			if w.File != "nginx.conf" || w.Line < 1 || w.Line > 1+strings.Count(text, "\n") {
				t.Errorf("%q: %+v is nowhere in it", text, w)
			}
		}
	})
}

const tokens = `
	[limit.api]
	match     = { path = "/api/**" }
	key       = ["ip", "header:X-API-Key"]
	missing   = "ip"
	algorithm = "token_bucket"
	rate      = "1000000/s"
	burst     = 1000000`
