package main

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"authz/redisscripts"
)

// command runs authz with these arguments and in as its input, and returns its exit code and all that
// it wrote; dir is left out of it.
func command(t *testing.T, dir, in string, args ...string) string {
	t.Helper()
	var out, err bytes.Buffer
	code := run(args, &console{strings.NewReader(in), &out, &err})
	return strings.ReplaceAll(fmt.Sprintf("exit %d\n%s%s", code, &out, &err), dir, "")
}

const login = `
[limit.login]
match     = { path = "/login", method = "POST" }
key       = ["ip"]
algorithm = "sliding_window"
rate      = "5/m"
`

func TestCheckSaysAllThatIsWrong(t *testing.T) {
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, "", "", append([]string{"check"}, args...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	good, bad := writeFile(t, "good.toml", login), writeFile(t, "bad.toml", strings.ReplaceAll(login, "5/m", "5")+"brust = 3\n")
	check("exit 0\ngood: 1 limits\n", good)
	if got := command(t, bad, "", "check", bad); !strings.HasPrefix(got, "exit 1\n:6: limit.login: rate = ") || strings.Count(got, "\n") != 3 {
		t.Errorf("a file with two mistakes: got\n%s", got)
	}
	check("exit 2\nauthz: expected \"<path> ...\"; see authz --help\n")
	check("exit 2\nauthz: unknown flag --fast; see authz --help\n", "--fast", good)
}

func TestUsageErrorsExit2(t *testing.T) {
	file := writeFile(t, "limits.toml", login)
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, "", "", args...); got != "exit 2\nauthz: "+want+"; see authz --help\n" {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	serve := func(want string, flags ...string) {
		t.Helper()
		check(want, append([]string{"serve", "--limits", file}, flags...)...)
	}
	check(`expected one of "serve", "check", "explain", "compile", "scripts", ...`)
	check("unexpected argument help", "help")
	check("missing flags: --limits=FILE|DIR,...", "serve")
	serve(`serve: --socket-mode=abc: want an octal mode, such as 0660`, "--socket-mode=abc")
	serve(`serve: --retry-after-max=1.5s: want whole seconds, such as 60s, or 0`, "--retry-after-max=1.5s")
	serve(`serve: --held-max=0: want 1 or more`, "--held-max=0")
	serve(`serve: --memory-buckets=0: want 1 or more`, "--memory-buckets=0")
	serve(`serve: trusted proxy "nginx", want an address or a prefix, such as 10.0.0.0/8`, "--trusted-proxies=unix,nginx")
	serve(`--headers must be one of "ietf","legacy","both" but got "all"`, "--headers=all")
	serve(`serve: --redis-timeout=0s: want a time above 0, such as 50ms`, "--redis-timeout=0s")
}

func TestExplainAnswersALineWithALine(t *testing.T) {
	file := writeFile(t, "limits.toml", login+`
[limit.off]
match     = { path = "/off" }
key       = ["header:X-API-Key", "cookie:s"]
missing   = "share"
algorithm = "leaky_bucket"
rate      = "0/s"
mode      = "shadow"
on_error  = "deny"
[allow.probes]
match = { path = "/healthz" }
[deny.env]
match = { path = "/.env" }
`)
	check := func(in, want string) {
		t.Helper()
		if got := command(t, "", in, "explain", "--json", "--limits", file); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", in, got, want)
		}
	}
	// the contract's own sample
	check(`{"method":"POST","host":"api.example.com","uri":"/login?x=1","ip":"203.0.113.9","zone":"","headers":{"X-API-Key":["k1"]}}`+"\n",
		`exit 0
{"verdict":"limits","rule":"","checks":[{"limit":"login","key":"ip=203.0.113.9","redis_key":"authz:v1:{ip=203.0.113.9}:login:sw","algorithm":"sliding_window","limit_count":5,"window_us":60000000,"burst":0,"offset_us":0,"cost":1,"shadow":false,"on_error":"local"}]}
`)
	check(`{"uri":"/healthz"}
{"uri":"/.env"}

{"uri":"/%zz"}
{"uri":"/"}`, `exit 0
{"verdict":"allow","rule":"probes","checks":[]}
{"verdict":"deny","rule":"env","checks":[]}
{"verdict":"deny","rule":"","checks":[]}
{"verdict":"none","rule":"","checks":[]}
`)
	// a secret is a digest; the cookie is found in any spelling of the header's name
	check(`{"uri":"/off","headers":{"cookie":["a=1; s=k1"],"x-api-key":[]}}`, `exit 0
{"verdict":"limits","rule":"","checks":[{"limit":"off","key":"header:x-api-key=|cookie:s=*6ab9f1eb8f7d3388f4f9d586f66e99fd","redis_key":"authz:v1:{header:x-api-key=|cookie:s=*6ab9f1eb8f7d3388f4f9d586f66e99fd}:off:lb","algorithm":"leaky_bucket","limit_count":0,"window_us":1000000,"burst":0,"offset_us":0,"cost":1,"shadow":true,"on_error":"deny"}]}
`)
	check("{\"uri\":\"/\"}\n{\"url\":\"/\"}\n", "exit 1\n"+`{"verdict":"none","rule":"","checks":[]}
authz: explain: line 2: json: unknown field "url", want an object with method, host, uri, ip, zone and headers, such as {"method":"GET","uri":"/","ip":"203.0.113.9","headers":{"X-API-Key":["k1"]}}
`)
	check(`{"uri":"/","ip":"x"}`, "exit 1\n"+`authz: explain: line 1: ip = "x", want an address, such as 203.0.113.9 or 2001:db8::1`+"\n")
	check(`{"uri":"/"} {"uri":"/"}`, "exit 1\nauthz: explain: line 1: text after the object, want one request a line\n")
}

func TestExplainTellsPeople(t *testing.T) {
	file := writeFile(t, "limits.toml", login+`
[limit.burst]
match     = { path = "/login" }
key       = ["host", "header:X-User"]
missing   = "ip"
algorithm = "token_bucket"
rate      = "10/s"
burst     = 20
mode      = "shadow"
[deny.env]
match = { path = "/.env" }
`)
	check := func(want string, flags ...string) {
		t.Helper()
		if got := command(t, "", "", append([]string{"explain", "--limits", file}, flags...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", flags, got, want)
		}
	}
	check(`exit 0
limit.burst: token_bucket, 10 in 1s, burst 20, cost 1, on_error local, shadow
  key   host=example.com|header:x-user=ann
  redis authz:v1:{host=example.com|header:x-user=ann}:burst:tb
limit.login: sliding_window, 5 in 1m0s, cost 1, on_error local
  key   ip=203.0.113.9
  redis authz:v1:{ip=203.0.113.9}:login:sw
`, "--method=POST", "--host=Example.com:443", "--uri=//login/?x", "--ip=203.0.113.9", "-H", "X-User: ann")
	check("exit 0\nadmitted: no rule meets it\n")
	check("exit 0\nblocked by env\n", "--uri=/.env")
	check("exit 0\nblocked: nginx answers 400 to this uri\n", "--uri=/..")
	check("exit 1\nauthz: --header=x: want NAME: VALUE\n", "-H", "x")
}

func TestCompileBeginsWithTheVersion(t *testing.T) {
	file := writeFile(t, "limits.toml", login)
	got := command(t, "", "", "compile", file)
	if !strings.HasPrefix(got, "exit 0\n{\"version\":\"") || !strings.Contains(got, `"login"`) {
		t.Errorf("got\n%s", got)
	}
	if again := command(t, "", "", "compile", "--redis-prefix=other", file); again == got {
		t.Error("the prefix of Redis keys makes no difference")
	}
}

func TestScriptsAreListedWithTheirSHA(t *testing.T) {
	take := redisscripts.Take()
	got := command(t, "", "", "scripts", "list")
	if want := fmt.Sprintf("exit 0\n%-16s v1  %s\n", "take", take.SHA); !strings.HasPrefix(got, want) || strings.Count(got, "\n") != 7 {
		t.Errorf("got\n%swant 6 scripts, the first\n%s", got, want)
	}
}

func TestVersionNamesGoToo(t *testing.T) {
	if got := command(t, "", "", "version"); !strings.HasPrefix(got, "exit 0\nauthz ") || !strings.HasSuffix(got, " "+runtime.Version()+"\n") {
		t.Errorf("got %q", got)
	}
}

func TestARedisURLIsLoggedWithoutItsSecrets(t *testing.T) {
	check := func(url, want string) {
		t.Helper()
		if got := (&redisFlags{Redis: url}).redacted(); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	check("redis://ann:p@ss,w?rd@10.0.0.1:6379/0", "redis://10.0.0.1:6379/0")
	check("redis://10.0.0.1:6379?password=x", "redis://10.0.0.1:6379")
	check("unix://:secret@/run/redis.sock?db=1", "unix:///run/redis.sock")
	check("redis://a:b@h1:1,redis://c:d@h2:2", "redis://h2:2")
	check("secret", "?")
}
