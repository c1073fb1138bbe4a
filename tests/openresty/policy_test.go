package openresty

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"authz/tests/rig"
)

// policyNginx is an nginx of two workers that watch policy.json.
type policyNginx struct{ *rig.NginxServer }

func startPolicyNginx(t testing.TB, policy string) policyNginx {
	t.Helper()
	return policyNginx{rig.StartPackNginx(t, 2, `
		lua_shared_dict watch 1m;
		init_by_lua_block { require("watch").start(ngx.config.prefix() .. "policy.json") }
		init_worker_by_lua_block { require("watch").work() }
		server {
			listen LISTEN;
			location /workers { content_by_lua_block { require("watch").show() } }
		}`, map[string]string{"policy.json": policy})}
}

// replace puts another file in the place of the policy, in one step.
func (n policyNginx) replace(t testing.TB, policy string) {
	t.Helper()
	n.Write(t, "new.json", policy)
	if err := os.Rename(filepath.Join(n.Dir, "new.json"), filepath.Join(n.Dir, "policy.json")); err != nil {
		t.Fatal(err)
	}
}

// workers is how often each of the two workers has looked, and its version and failure.
func (n policyNginx) workers(t testing.TB) (looks [2]int, has [2]string) {
	t.Helper()
	lines := strings.Split(n.Send(t, "GET /workers", "").Body, "\n")
	for id := range has {
		count, state, _ := strings.Cut(lines[id], " ")
		looks[id], _ = strconv.Atoi(count)
		has[id] = state
	}
	return looks, has
}

// await waits until every worker has the version, and the failure.
func (n policyNginx) await(t testing.TB, version, failure string) {
	t.Helper()
	want := version + " " + failure
	if failure != "" {
		want = version + " " + filepath.Join(n.Dir, "policy.json") + failure
	}
	var has [2]string
	defer func() {
		if t.Failed() {
			t.Logf("the workers have\n%s\n%s\nwant\n%s", has[0], has[1], want)
		}
	}()
	rig.Await(t, "such policy in both workers", func() bool {
		_, has = n.workers(t)
		return has == [2]string{want, want}
	})
}

func policyVersion(json string) string { return json[len(`{"version":"`):][:64] }

// signed is the text with the version that is right for it.
func signed(json string) string {
	rest := json[77:]
	return fmt.Sprintf(`{"version":"%x"%s`, sha256.Sum256([]byte(rest)), rest)
}

func TestAPolicyIsAppliedWholeOrNotAtAllInEveryWorker(t *testing.T) {
	const limit = `[limit.a]
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "%d/s"
	`
	one := string(rig.Compile(t, fmt.Sprintf(limit, 1)).JSON())
	two := string(rig.Compile(t, fmt.Sprintf(limit, 2)).JSON())
	n := startPolicyNginx(t, one)
	refused := func(policy, failure string) {
		t.Helper()
		n.replace(t, policy)
		n.await(t, policyVersion(one), failure)
	}
	n.await(t, policyVersion(one), "")
	n.replace(t, two)
	n.await(t, policyVersion(two), "")
	n.replace(t, one) // going back is an operator's right
	n.await(t, policyVersion(one), "")

	cut := func(rest string) string {
		return fmt.Sprintf(": is cut short or changed: SHA-256 %x, want the version, %s", sha256.Sum256([]byte(rest)), policyVersion(two))
	}
	refused("", `: begins with , want {"version":"...", as authz compile writes it`)
	refused(two[:40], `: begins with `+two[:20]+`, want {"version":"...", as authz compile writes it`)
	refused("[limit.a]\r\nkey = [\"ip\"]\n", `: begins with [limit.a]  key = ["i, want {"version":"...", as authz compile writes it`)
	refused(two[:77], cut(""))
	refused(two[:len(two)-1], cut(two[77:len(two)-1]))
	refused(two+"\n", cut(two[77:]+"\n"))
	changed := strings.Replace(two, `"limit":2`, `"limit":3`, 1)
	refused(changed, cut(changed[77:]))
	refused(signed(strings.Replace(two, `"shadow":false`, `"shade":false`, 1)), ": is from another release of authz: limit.a: shade is unknown")
	refused(signed(strings.Replace(two, `"key_prefix":"authz"`, `"key_prefix":null`, 1)), ": is from another release of authz: the set: key_prefix = null, want a text")

	for _, row := range [][3]string{
		{`"on_error":"local"`, `"on_error":"queue"`, `limit.a: on_error = "queue", want allow, deny or local`},
		{`,"on_error":"local"`, ``, "limit.a: on_error = nothing, want allow, deny or local"},
		{`"on_error":"local"`, `"on_error":"local","missing":"guess"`, `limit.a: missing = "guess", want skip, deny, share or ip`},
		{`"algorithm":"fixed_window"`, `"algorithm":"moving_window"`,
			`limit.a: algorithm = "moving_window", want token_bucket, leaky_bucket, fixed_window, sliding_window or sliding_counter`},
		{`"kind":"ip"`, `"kind":"asn"`, `limit.a: key.1.kind = "asn", want ip, host, method, path, path:raw, zone, header, query or cookie`},
		{`"limit":2`, `"limit":2,"share":{"limit":1,"window_us":1000000,"per":5}`, "limit.a: rate.share.per is unknown"},
	} {
		if !strings.Contains(two, row[0]) {
			t.Fatalf("no %s in %s", row[0], two)
		}
		refused(signed(strings.Replace(two, row[0], row[1], 1)), ": is from another release of authz: "+row[2])
	}

	n.replace(t, two)
	n.await(t, policyVersion(two), "")
	if err := os.Remove(filepath.Join(n.Dir, "policy.json")); err != nil {
		t.Fatal(err)
	}
	n.await(t, policyVersion(two), ": No such file or directory")
	n.replace(t, one)
	n.await(t, policyVersion(one), "")

	// Each worker says each of the sixteen failures once, and each of the four newer files.
	n.Quit(t)
	log := n.Read(t, "error.log")
	for said, want := range map[string]int{"the limits stay as they are": 2 * 16, "new limits, version": 2 * 4} {
		if got := strings.Count(log, said); got != want {
			t.Errorf("%q is said %d times, want %d:\n%s", said, got, want, log)
		}
	}
}

// While a worker makes a large policy its own it goes on with requests, by the one before, and then has all of
// the newer one.
func TestRequestsAreAnsweredByTheOldPolicyWhileANewerIsRead(t *testing.T) {
	old := strings.Replace(manyOverrides(0), "[limit.plan]", "[limit.old]", 1)
	n := rig.StartPackNginx(t, 1, `
		lua_shared_dict authz 1m;
		init_by_lua_block { authz = assert(require("resty.authz").new{policy = "limits.json", admitted_headers = true}) }
		server {
			listen LISTEN;
			include authz/openresty.conf;
			access_by_lua_block { authz.access() }
			location / { content_by_lua_block { ngx.print("ok") } }
			log_by_lua_block { ngx.log(ngx.NOTICE, "answered by ", ngx.var.authz_limit) }
		}`, map[string]string{"limits.json": string(rig.Compile(t, old).JSON())})
	policyOf := func(key string) string {
		return n.Send(t, "GET /", "", "X-API-Key: "+key).Header.Get("RateLimit-Policy")
	}
	rig.Same(t, policyOf("k7"), `"old";q=10;w=1`)
	rig.ReplaceFile(t, filepath.Join(n.Dir, "limits.json"), string(rig.Compile(t, manyOverrides(50000)).JSON()))
	rig.Await(t, "newer policy", func() bool { return policyOf("k0") != `"old";q=10;w=1` })
	for _, row := range []string{`k0 "plan";q=11;w=1`, `k7 "plan";q=18;w=1`, `k49999 "plan";q=60;w=1`, `k50000 "plan";q=10;w=1`} {
		key, _, _ := strings.Cut(row, " ")
		rig.Same(t, key+" "+policyOf(key), row)
	}

	n.Quit(t) // the log is whole
	before, rest, _ := strings.Cut(n.Read(t, "error.log"), "reading newer limits")
	during, after, found := strings.Cut(rest, "new limits, version")
	for when, log := range map[string][2]int{
		"before": {strings.Count(before, "answered by old"), strings.Count(before, "answered by plan")},
		"while":  {strings.Count(during, "answered by old"), strings.Count(during, "answered by plan")},
		"after":  {strings.Count(after, "answered by plan"), strings.Count(after, "answered by old")},
	} {
		if !found || log[0] == 0 || log[1] != 0 {
			t.Errorf("%s the newer policy was read %d requests were answered as they should and %d not", when, log[0], log[1])
		}
	}
}

// TestALookForANewerPolicyReadsItsHeadAlone lets the workers look at a policy of a megabyte.
func TestALookForANewerPolicyReadsItsHeadAlone(t *testing.T) {
	n := startPolicyNginx(t, string(rig.Compile(t, manyOverrides(10000)).JSON()))
	looks := func(count int) {
		t.Helper()
		before, _ := n.workers(t)
		rig.Await(t, "look of both workers", func() bool {
			now, _ := n.workers(t)
			return now[0] >= before[0]+count && now[1] >= before[1]+count
		})
	}
	looks(1)
	before := n.bytesRead(t)
	looks(3)
	if got := n.bytesRead(t) - before; got > 500<<10 { // our own requests are in it
		t.Errorf("three looks of two workers read %d bytes, want a hundred a look, and no megabyte", got)
	}
}

// A large file that cannot be used is read once, and not every second while it lies there; another is read at once.
func TestABadFileIsReadOnceUntilItChanges(t *testing.T) {
	good := string(rig.Compile(t, manyOverrides(10)).JSON())
	n := startPolicyNginx(t, good)
	bad := string(rig.Compile(t, manyOverrides(10000)).JSON())
	cut := func(text string) {
		t.Helper()
		n.replace(t, text)
		n.await(t, policyVersion(good), fmt.Sprintf(": is cut short or changed: SHA-256 %x, want the version, %s",
			sha256.Sum256([]byte(text[77:])), policyVersion(bad)))
	}
	cut(bad[:len(bad)-2])
	before := n.bytesRead(t)
	looks, _ := n.workers(t)
	rig.Await(t, "three looks of both workers", func() bool {
		now, _ := n.workers(t)
		return now[0] >= looks[0]+3 && now[1] >= looks[1]+3
	})
	if got := n.bytesRead(t) - before; got > 500<<10 {
		t.Errorf("three looks of two workers at a bad file read %d bytes, want a hundred a look, and no megabyte", got)
	}
	cut(bad[:len(bad)-1]) // as when it is being written
	n.replace(t, bad)
	n.await(t, policyVersion(bad), "")
}

// Memory that is short while a file is read, or anything else that ends the reading, ends no later one.
func TestAReadingThatFailsInTheMiddleEndsNoLaterOne(t *testing.T) {
	one, two := string(rig.Compile(t, manyOverrides(1)).JSON()), string(rig.Compile(t, manyOverrides(2)).JSON())
	n := rig.StartPackNginx(t, 2, `
		lua_shared_dict watch 1m;
		init_by_lua_block {
			require("watch").start(ngx.config.prefix() .. "policy.json")
			local file, open = require("resty.authz.file"), io.open
			local read = file.read
			function file.read(path, most, pause)
				if not most and open(ngx.config.prefix() .. "short") then error("not enough memory", 0) end
				return read(path, most, pause)
			end
		}
		init_worker_by_lua_block { require("watch").work() }
		server {
			listen LISTEN;
			location /workers { content_by_lua_block { require("watch").show() } }
		}`, map[string]string{"policy.json": one})
	p := policyNginx{n}
	n.Write(t, "short", "")
	p.replace(t, two)
	p.await(t, policyVersion(one), ": not enough memory")
	if err := os.Remove(filepath.Join(n.Dir, "short")); err != nil {
		t.Fatal(err)
	}
	p.replace(t, string(rig.Compile(t, manyOverrides(3)).JSON()))
	p.await(t, policyVersion(string(rig.Compile(t, manyOverrides(3)).JSON())), "")
}

// bytesRead is what the workers have read from files and sockets.
func (n policyNginx) bytesRead(t testing.TB) (total int) {
	t.Helper()
	for _, worker := range regexp.MustCompile(`start worker process (\d+)`).FindAllStringSubmatch(n.Read(t, "error.log"), -1) {
		io, err := os.ReadFile("/proc/" + worker[1] + "/io")
		if err != nil {
			t.Fatal(err)
		}
		bytes, err := strconv.Atoi(regexp.MustCompile(`rchar: (\d+)`).FindStringSubmatch(string(io))[1])
		if err != nil {
			t.Fatal(err)
		}
		total += bytes
	}
	return total
}

// manyOverrides is a limits file with overrides for API keys k0, k1 and so on.
func manyOverrides(count int) string {
	var b strings.Builder
	b.WriteString("[limit.plan]\nkey = [\"header:X-API-Key\"]\nmissing = \"ip\"\nalgorithm = \"token_bucket\"\nrate = \"10/s\"\n")
	for i := range count {
		fmt.Fprintf(&b, "[override.plan.k%d]\nrate = \"%d/s\"\n", i, 11+i%90)
	}
	return b.String()
}
