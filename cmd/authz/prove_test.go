package main

import (
	"testing"

	"authz/internal/testkit"
	"authz/limits"
)

func TestProveSaysWhatItWants(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", login+"[limit.quiet]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"5/m\"\nmode = \"shadow\"\n"+
		"[limit.none]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"0/m\"\n")
	check := func(want string, args ...string) {
		t.Helper()
		if got := command(t, "", "", append([]string{"prove", "--limit=login"}, args...)...); got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	usage := func(want string, args ...string) {
		t.Helper()
		check("exit 2\nauthz: "+want+"; see authz prove --help\n", args...)
	}
	url, limits := "--url=http://127.0.0.1/", "--limits="+file
	usage("prove: --url=: want http://HOST/PATH or https://HOST/PATH", limits)
	usage("prove: --url=127.0.0.1:80: want http://HOST/PATH or https://HOST/PATH", "--url=127.0.0.1:80", limits)
	usage("prove: --url=http:///login: want http://HOST/PATH or https://HOST/PATH", "--url=http:///login", limits)
	usage("prove: --url=http://ann:pass@h/: want http://HOST/PATH or https://HOST/PATH", "--url=http://ann:pass@h/", limits)
	usage("prove: want --limits=FILE|DIR, or --algorithm and --rate", url)
	usage("prove: want --limits=FILE|DIR, or --algorithm and --rate", url, "--rate=5/m")
	usage("prove: --limits and --algorithm, --rate or --burst: want one or the other", url, limits, "--burst=5")
	usage("prove: limit \"logn\": no such limit, want one of login, none, quiet", url, limits, "--limit=logn")
	usage(`prove: limit.quiet has mode = "shadow", which refuses nobody`, url, limits, "--limit=quiet")
	usage("prove: a rate of 0/m promises nothing that could be proved, want one that admits some", url, limits, "--limit=none")
	usage("prove: a rate of unlimited promises nothing that could be proved, want one that admits some", url, "--algorithm=token_bucket", "--rate=unlimited")
	usage("prove: --algorithm=gcra: want one of token_bucket, leaky_bucket, fixed_window, sliding_window, sliding_counter", url, "--algorithm=gcra", "--rate=5/m")
	usage(`prove: --rate="5", want "COUNT/[N]UNIT" such as "5/m" or "100/10s" (units: ms, s, m, h, d; nginx's "10r/s" too), or "unlimited"`, url, "--algorithm=token_bucket", "--rate=5")
	bucket, leaky := []string{url, "--algorithm=token_bucket", "--rate=5/m"}, []string{url, "--algorithm=leaky_bucket", "--rate=5/m"}
	usage("prove: --burst=-1: want 1 to 750599937 at 5/m: more cannot be counted exactly", append(bucket, "--burst=-1")...)
	usage("prove: --burst=0: want 1 to 750599937 at 5/m: more cannot be counted exactly", append(bucket, "--burst=0")...)
	usage("prove: --burst=750599938: want 1 to 750599937 at 5/m: more cannot be counted exactly", append(bucket, "--burst=750599938")...)
	usage("prove: --burst=-1: want 0 to 750599936 at 5/m: more cannot be counted exactly", append(leaky, "--burst=-1")...)
	usage("prove: --burst=9223372036854775807: want 0 to 750599936 at 5/m: more cannot be counted exactly", append(leaky, "--burst=9223372036854775807")...)
	usage("prove: --rate=9007199254740991/366d: want --burst=N, 1 to 284 at this rate, it is 9007199254740991: more cannot be counted exactly",
		url, "--algorithm=token_bucket", "--rate=9007199254740991/366d")
	usage("prove: --burst=9: want none: only token_bucket and leaky_bucket have a burst, this is a fixed_window",
		url, "--algorithm=fixed_window", "--rate=5/m", "--burst=9")
	check("exit 1\nauthz: prove: Send 10000 requests to example.com? Nobody is there to answer, want --yes\n", "--url=https://example.com",
		"--algorithm=token_bucket", "--rate=5/m", "--burst=750599937")
	usage("prove: --requests=50001: want 1 to 50000", url, limits, "--requests=50001")
	usage("prove: --for=-1s: want a time, such as 30s", url, limits, "--for=-1s")
	usage("prove: --header=X-User ann: want NAME: VALUE", url, limits, "-H", "X-User ann")
	usage("prove: --vary=X-User: ann: want NAME: VALUE with {n} in it, such as 'X-API-Key: prove-{n}'", url, limits, "--vary=X-User: ann")

	// It asks before anything is sent, and here is nobody.
	check("exit 1\nauthz: prove: Send 42 requests to 203.0.113.9:81? Nobody is there to answer, want --yes\n", "--url=http://203.0.113.9:81/login", limits, "--method=POST")
	check("exit 1\nauthz: prove: Send 1 request to example.com? Nobody is there to answer, want --yes\n", "--url=https://example.com/login", limits, "--requests=1", "--method=POST")
	usage("prove: limit.login does not meet GET /login of host example.com: want another --url, --method or --header; see authz explain", "--url=https://example.com/login", limits)
}

// As far as the limits file tells, before anything is sent.
func TestARunThatTheLimitDoesNotMeetDoesNotBegin(t *testing.T) {
	file := testkit.WriteFile(t, "limits.toml", `
		[allow.probes]
		match = { path = "/healthz" }
		[deny.office]
		match = { path = "/office", ip = "192.0.2.0/24" }
		[limit.login]
		match     = { path = "/login", method = "POST" }
		key       = ["header:X-User"]
		missing   = "skip"
		algorithm = "sliding_window"
		rate      = "5/m"
		[override.login."ann"]
		rate = "50/m"
		[limit.inside]
		match     = { ip = "10.0.0.0/8" }
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "5/m"
		[limit.user]
		match     = { path = "/user", host = "a.test" }
		key       = ["header:X-User"]
		missing   = "deny"
		algorithm = "fixed_window"
		rate      = "5/m"
		[limit.dear]
		match     = { path = "/dear" }
		key       = []
		cost      = 5
		algorithm = "fixed_window"
		rate      = "50/m"`)
	set, err := limits.Load("authz", file)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want, limit, url string, args ...string) {
		t.Helper()
		var c commands
		args = append([]string{"prove", "--limits=" + file, "--limit=" + limit, "--url=http://site.test" + url}, args...)
		if _, err := parse(args, &c, &console{}); err != nil {
			t.Fatal(err)
		}
		got := "meets"
		l, err := set.Limit(limit)
		if err == nil {
			err = c.Prove.Meets(set, l, 0)
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	const another = ": want another --url, --method or --header; see authz explain"
	check("meets", "login", "/login?x", "--method=POST", "-H", "x-user: bob")
	check("limit.login does not meet GET /login of host site.test"+another, "login", "/login", "-H", "X-User: bob")
	check("limit.login does not meet POST / of host site.test"+another, "login", "", "--method=POST")
	check("limit.login does not count POST /login of host site.test: header:x-user is absent; see --header and --vary", "login", "/login", "--method=POST")
	check("meets", "login", "/login", "--method=POST", "--vary=X-User: prove-{n}")
	check("an override gives header:x-user=ann 50/m: want another key, or the override's numbers as --rate and --burst",
		"login", "/login", "--method=POST", "-H", "X-User: ann")
	check("allow.probes decides GET /healthz of host site.test, and no limit counts it; see authz explain", "login", "/healthz")
	check("POST /dear of host site.test costs 5: want one that costs 1; a run counts requests", "dear", "/dear", "--method=POST")
	check("limit.user blocks GET /user of host a.test: header:x-user is absent; see --header and --vary", "user", "/user", "-H", "Host: a.test")
	check("meets", "user", "/user", "-H", "host: a.test", "-H", "X-User: ann")
	check("meets", "user", "/user", "--direct", "-H", "Host: a.test", "-H", "X-User: ann")
	check("limit.user does not meet GET /user of host site.test"+another, "user", "/user", "-H", "X-User: ann")
	check("no limit meets GET /%zz: nginx answers 400 to it", "login", "/nginx", "-H", "X-Original-URI: /%zz")

	// A site knows the client's address, and we do not; authz is told it.
	check("meets", "inside", "/")
	check("limit.inside does not meet GET / of host site.test"+another, "inside", "/", "--direct")
	check("meets", "inside", "/", "--direct", "-H", "X-Real-IP: 10.1.2.3")
	check("meets", "inside", "/office")
	check("deny.office decides GET /office of host site.test, and no limit counts it; see authz explain", "inside", "/office", "--direct", "-H", "X-Real-IP: 192.0.2.9")
}
