package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// One refused request is found in both logs by nginx's own id for it, whatever the client calls it.
func TestARefusedRequestIsInBothLogsByItsID(t *testing.T) {
	t.Parallel()
	s := startSite(t, siteConf{limits: undoLimits, http: `
		log_format ids '$request_uri $status $request_id';
		access_log access.log ids;`, server: closedServer})
	const theirs = "X-Request-ID: 00000000000000000000000000000001"
	same(t, s.sendAll(t, 5, "GET /login", theirs), "200 200 429 429 429")
	line := regexp.MustCompile(`msg=refused limit=login key="ip=127.0.0.1" status=429 retry_after=\d+ request_id=(\S+)`).FindStringSubmatch(s.authz.logged())
	if line == nil {
		t.Fatalf("no line for the refusal in\n%s", s.authz.logged())
	}
	await(t, "access log", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.dir, "access.log"))
		return strings.Contains(string(log), "/login 429 "+line[1]+"\n")
	})
	s.authz.stop(t)
	if got := strings.Count(s.authz.logged(), "msg=refused "); got != 1 || !strings.Contains(s.authz.logged(), `msg="refused again" limit=login key="ip=127.0.0.1" times=2`) {
		t.Errorf("%d lines for a first refusal, want one, and one for the other two, in\n%s", got, s.authz.logged())
	}
}

func TestWhoWantsNoLinesForRefusalsHasNone(t *testing.T) {
	t.Parallel()
	a := startAuthz(t, "--no-log-refusals", "--limits="+limitsFile(t, undoLimits))
	for range 4 {
		a.checker().check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"})
	}
	exactly(t, "exit 0\nrefused  limit  key\n2        login  ip=192.0.2.7\n", "top", "--admin="+a.admin) // they are counted
	a.stop(t)
	if strings.Contains(a.logged(), "refused") {
		t.Errorf("logged\n%s", a.logged())
	}
}

// Refusals by Redis, those that are remembered, and those of a rate of 0 are all among them; shadows are not.
func TestTopNamesWhoIsRefusedMost(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	a := startAuthz(t, "--redis="+r.url(), "--redis-timeout=20s", "--limits="+limitsFile(t, undoLimits+`
		[limit.gone]
		match     = { path = "/gone" }
		key       = []
		algorithm = "token_bucket"
		rate      = "0/s"
		[limit.watch]
		key       = ["ip"]
		algorithm = "fixed_window"
		rate      = "1/366d"
		mode      = "shadow"`))
	top := func(want string, args ...string) {
		t.Helper()
		exactly(t, want, append([]string{"top", "--admin=" + a.admin}, args...)...)
	}
	top("exit 0\nnobody was refused in the last 1m\n")
	ask := a.checker()
	for path, n := range map[string]int{"/login": 7, "/plan": 6, "/gone": 3} {
		for range n {
			ask.check(t, "GET "+path, []string{"X-Real-IP: 192.0.2.7", "X-API-Key: s3cr3t"})
		}
	}
	const all = "refused  limit  key\n5        login  ip=192.0.2.7\n3        gone   everybody\n2        plan   header:x-api-key=*4e738ca5563c06cfd0018299933d58db\n"
	top("exit 0\n" + all)
	top("exit 0\n"+all, "--span=1h")
	top("exit 0\n"+all[:strings.Index(all, "3  ")], "-n1")
	code, printed := authz(t, "top", "--admin="+a.admin, "--json", "-n1")
	var keys []map[string]any
	if err := json.Unmarshal([]byte(printed), &keys); err != nil || code != 0 || len(keys) != 1 || keys[0]["refused_at_least"] != 5.0 || keys[0]["refused_at_most"] != 5.0 {
		t.Errorf("%d %v %s", code, err, printed)
	}
	exactly(t, "exit 2\nauthz: top: --n=0: want 1 to 1024; see authz top --help\n", "top", "-n0")
	exactly(t, "exit 1\nauthz: top: --admin=127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; is authz serve running, with this --admin?\n", "top", "--admin=127.0.0.1:1")
}
