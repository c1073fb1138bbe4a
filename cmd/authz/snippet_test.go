package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"authz/internal/testkit"
)

func TestASnippetForwardsJustTheHeadersThatLimitsRead(t *testing.T) {
	check := func(want, toml string) {
		t.Helper()
		got := command(t, "", "", "snippet", testkit.WriteFile(t, "limits.toml", toml))
		var lines []string
		for line := range strings.Lines(got) {
			if strings.Contains(line, "$http_") || strings.Contains(line, "Host $authz") || strings.Contains(line, "set $authz_zone to") || strings.Contains(line, "limits call zone") || strings.HasPrefix(line, "authz: ") || strings.HasPrefix(line, "header:") {
				lines = append(lines, strings.TrimSpace(line))
			}
		}
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", toml, got, want)
		}
	}
	limit := func(text string) string {
		return "[limit.a]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\nmissing = \"skip\"\n" + text + "\n"
	}
	check("", login)
	check("proxy_set_header X-Api-Key $http_x_api_key;", limit(`key = ["header:X-API-Key", "host"]`))
	check("proxy_set_header Cookie $http_cookie;\nproxy_set_header X-Plan $http_x_plan;\nproxy_set_header X-Units $http_x_units;",
		limit("key = [\"cookie:session\"]\nmatch = { header = { X-Plan = \"gold\" } }\nunless = { cookie = { staff = \"*\" } }\ncost = \"header:X-Units\"\ncost_max = 5"))
	check("map $http_host $authz_http_host { \"\" none; default $http_host; }\nproxy_set_header Host $authz_http_host;\nproxy_set_header User-Agent $http_user_agent;", limit(`key = ["header:Host", "header:X-Real-IP"]`)+"[deny.bots]\nmatch = { header = { User-Agent = \"*bot*\" } }\n")
	check("# In the location that limits call zone \"export\": set $authz_zone \"export\";", limit(`key = ["zone"]`)+"[allow.x]\nmatch = { zone = \"export\" }\n")
	check("# In a location that limits call by zone = \"e*\": set $authz_zone to a name that it meets.", limit(`key = ["zone"]`)+"[allow.x]\nmatch = { zone = \"e*\" }\n")
	check("authz: snippet: header:content-length: it is a proxy's own in a check, and cannot be the client's: want another header", limit(`key = ["header:Content-Length"]`))
	check("authz: snippet: header:x.plan: nginx has no variable for it, and hands on none with _: want a name of letters, digits and -\n"+
		"header:x_key: nginx has no variable for it, and hands on none with _: want a name of letters, digits and -", limit(`key = ["header:X.Plan", "header:X_Key"]`))
}

// The command that a snippet names writes the same again.
func TestASnippetNamesTheCommandThatWritesIt(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"limits.toml", "it's $1.toml"} {
		if err := os.WriteFile(name, []byte(strings.ReplaceAll(login, "login", "l"+name[:2])), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want string, args ...string) {
		t.Helper()
		got := command(t, "", "", append([]string{"snippet"}, args...)...)
		if _, line, _ := strings.Cut(got, "\n#     "); !strings.HasPrefix(line, want+"\n") {
			t.Errorf("%v: got\n%s\nwant %s", args, got, want)
		}
		words, err := exec.Command("sh", "-c", `printf "%s\n" `+strings.TrimPrefix(want, "authz ")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if again := command(t, "", "", strings.Split(strings.TrimSpace(string(words)), "\n")...); again != got {
			t.Errorf("%s: got\n%s\nwant\n%s", want, again, got)
		}
	}
	check("authz snippet --for=nginx limits.toml", "limits.toml")
	check("authz snippet --for=nginx --headers=both --upstream=unix:/run/a.sock --dead=open --admitted-headers limits.toml",
		"--admitted-headers", "limits.toml", "--dead=open", "--headers=both", "--upstream=unix:/run/a.sock")
	check("authz snippet --for=openresty --redis='[::1]:6379' --policy='/etc/a b.json' limits.toml",
		"--for=openresty", "limits.toml", "--policy=/etc/a b.json", "--redis=[::1]:6379")
	if got := command(t, "", "", "snippet", "limits.toml", "--for=openresty", "--redis=[::1]:6379"); !strings.Contains(got, `redis = { host = "[::1]", port = 6379 },`) {
		t.Error(got)
	}
	if err := os.Remove("limits.toml"); err != nil {
		t.Fatal(err)
	}
	check(`authz snippet --for=nginx 'it'\''s $1.toml'`, "it's $1.toml")
}

func TestASnippetIsForWhatCanBe(t *testing.T) {
	good, bad := testkit.WriteFile(t, "limits.toml", login), testkit.WriteFile(t, "bad.toml", "[limit.a]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"5\"\n")
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, filepath.Dir(bad)+"/", "", append([]string{"snippet"}, args...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	usage := func(want string, args ...string) {
		t.Helper()
		check("exit 2\nauthz: snippet: "+want+"; see authz snippet --help\n", append(args, good)...)
	}
	check(command(t, filepath.Dir(bad)+"/", "", "check", bad), bad)
	usage("--upstream=/run/a.sock: want host:port or unix:/path", "--upstream=/run/a.sock")
	usage("--upstream=: want host:port or unix:/path", "--upstream=")
	usage("--upstream=a:1;b: want host:port or unix:/path", "--upstream=a:1;b")
	usage("--redis=redis://a:1: want host:port or unix:/path", "--for=openresty", "--redis=redis://a:1")
	usage(`--policy="a\"b": want a path without quotes and backslashes`, "--for=openresty", `--policy=a"b`)
	usage("--redis is not for nginx", "--redis=a:1")
	usage("--policy is not for nginx", "--policy=/a")
	usage("--upstream is not for openresty", "--for=openresty", "--upstream=a:1")
	usage("--dead is not for openresty", "--for=openresty", "--dead=open")
}

// A check that forwards a header of another proxy would be blocked each time that a client sends it.
func TestASnippetForwardsNoHeaderOfAnotherProxy(t *testing.T) {
	for _, name := range []string{"X-Original-URL", "X-Forwarded-Method"} {
		file := testkit.WriteFile(t, "limits.toml", strings.Replace(tokens, "X-API-Key", name, 1))
		want := "exit 1\nauthz: snippet: header:" + strings.ToLower(name) +
			": it is a proxy's own in a check, and cannot be the client's: want another header\n"
		if got := command(t, "", "", "snippet", file); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
}
