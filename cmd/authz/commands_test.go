package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"authz/internal/buildinfo"
	"authz/internal/store/redisstore"
	"authz/internal/testkit"
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
	good, bad := testkit.WriteFile(t, "good.toml", login), testkit.WriteFile(t, "bad.toml", strings.ReplaceAll(login, "5/m", "5")+"brust = 3\n")
	check("exit 0\ngood: 1 limit, 0 allow rules, 0 deny rules, 0 overrides\n", good)
	more := testkit.WriteFile(t, "more.toml", "[limit.b]\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\n"+
		"[override.b.\"10.0.0.1\"]\nrate = \"6/m\"\n[allow.a]\n[deny.a]\n[deny.b]\n")
	check("exit 0\ngood: 2 limits, 1 allow rule, 2 deny rules, 1 override\nallow.a has no match: it lets every request past every limit\n", good, more)
	sale := testkit.WriteFile(t, "sale.toml", "[schedule.login.sale]\nrate = \"50/m\"\ndays = [\"fri\"]\nzone = \"Europe/Berlin\"\n")
	check("exit 0\ngood: 1 limit, 0 allow rules, 0 deny rules, 0 overrides, 1 schedule\n", good, sale)
	empty := testkit.WriteFile(t, "empty.toml", "")
	check("exit 1\n"+empty+": no rules, want at least one [limit.NAME], [allow.NAME] or [deny.NAME]\n", empty)
	if got := command(t, bad, "", "check", bad); !strings.HasPrefix(got, "exit 1\n:6: limit.login: rate = ") || strings.Count(got, "\n") != 3 {
		t.Errorf("a file with two mistakes: got\n%s", got)
	}
	check("exit 2\nauthz: expected \"<path> ...\"; see authz check --help\n")
	check("exit 2\nauthz: unknown flag --fast; see authz check --help\n", "--fast", good)
}

func TestUsageErrorsExit2(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login)
	see := func(of, want string, args ...string) {
		t.Helper()
		if got := command(t, "", "", args...); got != "exit 2\nauthz: "+want+"; see "+of+" --help\n" {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	serve := func(want string, flags ...string) {
		t.Helper()
		see("authz serve", want, append([]string{"serve", "--limits", file}, flags...)...)
	}
	see("authz", `expected one of "serve", "check", "explain", "compile", "replay", "scripts", "doctor", "prove", "get", "reset", "top", "ready", "snippet", "lint", "version"`)
	see("authz scripts", `expected one of "list", "load"`, "scripts")
	see("authz", "unexpected argument help", "help")
	see("authz", "unknown flag --fast", "--fast")
	see("authz doctor", "unknown flag --fast", "doctor", "--fast")
	see("authz scripts load", "unexpected argument it", "scripts", "load", "it")
	see("authz serve", "missing flags: --limits=FILE|DIR", "serve")
	serve(`--socket-mode: "abc", want an octal mode, such as 0660`, "--socket-mode=abc")
	serve(`--socket-mode: "1000", want an octal mode, such as 0660`, "--socket-mode=1000")
	serve(`serve: --retry-after-max=1.5s: want whole seconds, such as 60s, or 0`, "--retry-after-max=1.5s")
	serve(`serve: --held-max=0: want 1 or more`, "--held-max=0")
	serve(`serve: --memory-buckets=0: want 1 or more`, "--memory-buckets=0")
	serve(`serve: --trusted-proxies: "nginx", want an address or CIDR such as "10.0.0.0/8", or unix`, "--trusted-proxies=unix,nginx")
	serve(`--headers must be one of "ietf","legacy","both" but got "all"`, "--headers=all")
	serve(`serve: --redis-password and --redis-password-file: want one of them`, "--redis-password=a", "--redis-password-file="+file)
	serve(`serve: --redis-timeout=0s: want a time above 0, such as 50ms`, "--redis-timeout=0s")
}

func TestExplainAnswersALineWithALine(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login+`
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
	// lines of one name are one value ("k0, k1, k2"), in whatever spelling
	check(`{"uri":"/off","headers":{"X-Api-Key":["k1"],"x-api-key":["k2"],"X-API-KEY":["k0"],"Cookie":["s=k1"],"cookie":["s=k2"]}}`, `exit 0
{"verdict":"limits","rule":"","checks":[{"limit":"off","key":"header:x-api-key=*7c8191b6d3834246e041f386aeb72262|cookie:s=*6ab9f1eb8f7d3388f4f9d586f66e99fd","redis_key":"authz:v1:{header:x-api-key=*7c8191b6d3834246e041f386aeb72262|cookie:s=*6ab9f1eb8f7d3388f4f9d586f66e99fd}:off:lb","algorithm":"leaky_bucket","limit_count":0,"window_us":1000000,"burst":0,"offset_us":0,"cost":1,"shadow":true,"on_error":"deny"}]}
`)
	check("{\"uri\":\"/\"}\n{\"url\":\"/\"}\n", "exit 1\n"+`{"verdict":"none","rule":"","checks":[]}
authz: explain: line 2: json: unknown field "url", want an object with method, host, uri, ip, zone, headers and at, such as {"method":"GET","uri":"/","ip":"203.0.113.9","headers":{"X-API-Key":["k1"]}}
`)
	check(`{"uri":"/","ip":"x"}`, "exit 1\n"+`authz: explain: line 1: ip = "x", want an address, such as 203.0.113.9 or 2001:db8::1`+"\n")
	check(`{"uri":"/"} {"uri":"/"}`, "exit 1\nauthz: explain: line 1: text after the object, want one request a line\n")
}

func TestExplainSaysWhatCountsAtATime(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login+`
[schedule.login.sale]
rate  = "50/m"
from  = "2026-11-27T00:00"
until = "2026-11-28T00:00"
zone  = "Europe/Berlin"
[schedule.login.free]
rate  = "unlimited"
from  = "2026-11-28T00:00"
until = "2026-11-29T00:00"
zone  = "Europe/Berlin"
[override.login."192.0.2.1"]
rate = "7/m"
`)
	check := func(want, ip string, flags ...string) {
		t.Helper()
		flags = append([]string{"explain", "--limits", file, "--method=POST", "--uri=/login", "--ip=" + ip}, flags...)
		if got := command(t, "", "", flags...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", flags, got, want)
		}
	}
	const key = "  key   ip=203.0.113.9\n  redis authz:v1:{ip=203.0.113.9}:login:sw\n"
	check("exit 0\nlimit.login: sliding_window, 5/m, cost 1, on_error local\n"+key, "203.0.113.9", "--at=2026-11-26T23:59:59.999999+01:00")
	check("exit 0\nlimit.login: sliding_window, 50/m (by schedule sale), cost 1, on_error local\n"+key, "203.0.113.9", "--at=2026-11-26T23:00:00Z")
	check("exit 0\nadmitted: no limit counts it\nlimit.login: unlimited (by schedule free)\n", "203.0.113.9", "--at=2026-11-28T00:00:00+01:00")
	check("exit 0\nlimit.login: sliding_window, 7/m (by an override), cost 1, on_error local\n  key   ip=192.0.2.1\n  redis authz:v1:{ip=192.0.2.1}:login:sw\n",
		"192.0.2.1", "--at=2026-11-28T00:00:00+01:00")
	check("exit 1\nauthz: at = \"tomorrow\", want a time such as 2026-11-27T00:00:00+01:00\n", "203.0.113.9", "--at=tomorrow")
	want := "exit 1\nauthz: explain: line 1: at = \"2026-11-27T00:00\", want a time such as 2026-11-27T00:00:00+01:00\n"
	if got := command(t, "", `{"uri":"/","at":"2026-11-27T00:00"}`, "explain", "--json", "--limits", file); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestExplainTellsPeople(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login+`
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
[allow.probes]
match = { path = "/healthz" }
[limit.exports]
match     = { path = "/exports" }
key       = ["header:X-API-Key", "cookie:s"]
missing   = "deny"
algorithm = "fixed_window"
rate      = "10/d"
[limit.plan]
match     = { path = "/plan" }
key       = ["header:X-User"]
missing   = "skip"
algorithm = "token_bucket"
rate      = "100/10s"
[override.plan.ann]
rate  = "1000/s"
burst = 2000
[override.plan.bob]
rate = "unlimited"
[limit.guest]
match     = { path = "/guest" }
key       = ["header:X-User", "cookie:s"]
missing   = "share"
algorithm = "token_bucket"
rate      = "10/s"
initial   = 0.3
[limit.total]
match     = { path = "/total" }
key       = []
algorithm = "sliding_counter"
rate      = "100/10s"
`)
	check := func(want string, flags ...string) {
		t.Helper()
		if got := command(t, "", "", append([]string{"explain", "--limits", file}, flags...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", flags, got, want)
		}
	}
	check(`exit 0
limit.burst: token_bucket, 10/s, burst 20, cost 1, on_error local, shadow
  key   host=example.com|header:x-user=ann
  redis authz:v1:{host=example.com|header:x-user=ann}:burst:tb
limit.login: sliding_window, 5/m, cost 1, on_error local
  key   ip=203.0.113.9
  redis authz:v1:{ip=203.0.113.9}:login:sw
`, "--method=POST", "--host=Example.com:443", "--uri=//login/?x", "--ip=203.0.113.9", "-H", "X-User: ann")
	// what stands for a part that is missing
	check(`exit 0
limit.burst: token_bucket, 10/s, burst 20, cost 1, on_error local, shadow
  key   host=example.com|ip=203.0.113.9 (header:x-user is absent: the ip stands for it)
  redis authz:v1:{host=example.com|ip=203.0.113.9}:burst:tb
`, "--host=example.com", "--uri=/login", "--ip=203.0.113.9")
	check(`exit 0
limit.guest: token_bucket, 10/s, burst 10, initial 3, cost 1, on_error local
  key   header:x-user=ann|cookie:s= (cookie:s is absent: shared by all such requests)
  redis authz:v1:{header:x-user=ann|cookie:s=}:guest:tb
`, "--uri=/guest", "-H", "X-User: ann")
	check("exit 0\nadmitted: no rule meets it\n")
	check("exit 0\nblocked by deny rule env\n", "--uri=/.env")
	check("exit 0\nadmitted by allow rule probes\n", "--uri=/healthz")
	check("exit 0\nblocked by limit exports: header:x-api-key and cookie:s are absent\n", "--uri=/exports")
	check("exit 0\nblocked by limit exports: cookie:s is absent\n", "--uri=/exports", "-H", "X-API-Key: k")
	check("exit 0\nadmitted: no limit counts it\nlimit.plan: skipped, header:x-user is absent\n", "--uri=/plan")
	check("exit 0\nadmitted: no limit counts it\nlimit.plan: unlimited (by an override)\n", "--uri=/plan", "-H", "X-User: bob")
	check(`exit 0
limit.plan: token_bucket, 1000/s, burst 2000 (by an override), cost 1, on_error local
  key   header:x-user=ann
  redis authz:v1:{header:x-user=ann}:plan:tb
`, "--uri=/plan", "-H", "X-User: ann")
	check(`exit 0
limit.total: sliding_counter, 100/10s, cost 1, on_error local
  key   everybody
  redis authz:v1:{total}:total:sc
`, "--uri=/total")
	check("exit 0\nblocked: nginx answers 400 to this uri or host\n", "--uri=/..")
	check("exit 0\nblocked: nginx answers 400 to this uri or host\n", "--host=a..b")
	check("exit 1\nauthz: --header=x: want NAME: VALUE\n", "-H", "x")
	// lines of one name are one value, in whatever spelling
	check(`exit 0
limit.plan: token_bucket, 100/10s, burst 100, cost 1, on_error local
  key   header:x-user=bob%2C%20ann
  redis authz:v1:{header:x-user=bob%2C%20ann}:plan:tb
`, "--uri=/plan", "-H", "x-user: bob", "-H", "X-User: ann")
}

func TestCompileBeginsWithTheVersion(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login)
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
	if got := command(t, "", "", "version"); !strings.HasPrefix(got, "exit 0\nauthz ") || !strings.HasSuffix(got, " "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n") {
		t.Errorf("got %q", got)
	}
}

func TestHelpFitsItsCommand(t *testing.T) {
	check := func(has, hasNot string, args ...string) {
		t.Helper()
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "AUTHZ_TEST_MAIN=1", "AUTHZ_VERSION=9")
		out, err := cmd.CombinedOutput()
		got := strings.Join(strings.Fields(string(out)), " ")
		if err != nil || !strings.Contains(got, has) || strings.Contains(got, hasNot) {
			t.Errorf("%v: %v,\n%s\nwant %q and not %q", args, err, out, has, hasNot)
		}
	}
	check("Sentinels; without it counts stay in this process", "${", "serve", "--help")
	check("Sentinels ($AUTHZ_REDIS)", "without it", "scripts", "load", "--help")
	check("Name, version and SHA-1 of each script.", "each.", "--help")
	check(buildinfo.Text(), "Usage", "--version")
}

// The flags that end a process need one.
func TestMain(m *testing.M) {
	if os.Getenv("AUTHZ_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestARedisURLIsLoggedWithoutItsSecrets(t *testing.T) {
	check := func(url, want string) {
		t.Helper()
		if got := redisstore.Redacted(url); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	check("redis://ann:p@ss,word@10.0.0.1:6379/0", "redis://10.0.0.1:6379/0")
	check("redis://ann:p@ss,w?rd@10.0.0.1:6379/0", "redis://?")
	check("rediss://ann:pass@h1,h2:6380,[::1]:6380?pool_size=5", "rediss://h1,h2:6380,[::1]:6380")
	check("redis://h1,h2?master=main&sentinel_password=p%40ss", "redis://h1,h2")
	check("redis://ann:pass@h1,h2?master=main&sentinel_password=p@ss", "redis://?")
	check("redis://10.0.0.1:6379?password=x", "redis://10.0.0.1:6379")
	check("unix://:secret@/run/redis.sock?db=1", "unix:///run/redis.sock")
	check("redis://a:b@h1:1,redis://c:d@h2:2", "redis://h2:2")
	check("secret", "?")
}
