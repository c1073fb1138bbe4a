package nginx

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

// One refused request is found in both logs by nginx's own id for it, whatever the client calls it.
func TestARefusedRequestIsInBothLogsByItsID(t *testing.T) {
	t.Parallel()
	s := rig.StartSite(t, rig.SiteConf{Limits: rig.UndoLimits, Http: `
		log_format ids '$request_uri $status $request_id';
		access_log access.log ids;`, Server: rig.ClosedServer})
	const theirs = "X-Request-ID: 00000000000000000000000000000001"
	rig.Same(t, s.SendAll(t, 5, "GET /login", theirs), "200 200 429 429 429")
	line := regexp.MustCompile(`msg=refused limit=login key="ip=127.0.0.1" status=429 retry_after=\d+ request_id=(\S+)`).FindStringSubmatch(s.Authz.Logged())
	if line == nil {
		t.Fatalf("no line for the refusal in\n%s", s.Authz.Logged())
	}
	rig.Await(t, "access log", func() bool {
		log, _ := os.ReadFile(filepath.Join(s.Dir, "access.log"))
		return strings.Contains(string(log), "/login 429 "+line[1]+"\n")
	})
	s.Authz.Stop(t)
	if got := strings.Count(s.Authz.Logged(), "msg=refused "); got != 1 || !strings.Contains(s.Authz.Logged(), `msg="refused again" limit=login key="ip=127.0.0.1" times=2`) {
		t.Errorf("%d lines for a first refusal, want one, and one for the other two, in\n%s", got, s.Authz.Logged())
	}
}

func TestWhoWantsNoLinesForRefusalsHasNone(t *testing.T) {
	t.Parallel()
	a := rig.StartAuthz(t, "--no-log-refusals", "--limits="+rig.LimitsFile(t, rig.UndoLimits))
	for range 4 {
		a.Checker().Check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"})
	}
	rig.Exactly(t, "exit 0\nrefused  limit  key\n2        login  ip=192.0.2.7\n", "top", "--admin="+a.Admin) // they are counted
	a.Stop(t)
	if strings.Contains(a.Logged(), "refused") {
		t.Errorf("logged\n%s", a.Logged())
	}
}

// Refusals by Redis, those that are remembered, and those of a rate of 0 are all among them; shadows are not.
func TestTopNamesWhoIsRefusedMost(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--redis="+r.URL(), "--redis-timeout=20s", "--limits="+rig.LimitsFile(t, rig.UndoLimits+`
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
		rig.Exactly(t, want, append([]string{"top", "--admin=" + a.Admin}, args...)...)
	}
	top("exit 0\nnobody was refused in the last 1m\n")
	ask := a.Checker()
	for path, n := range map[string]int{"/login": 7, "/plan": 6, "/gone": 3} {
		for range n {
			ask.Check(t, "GET "+path, []string{"X-Real-IP: 192.0.2.7", "X-API-Key: s3cr3t"})
		}
	}
	const all = "refused  limit  key\n5        login  ip=192.0.2.7\n3        gone   everybody\n2        plan   header:x-api-key=*4e738ca5563c06cfd0018299933d58db\n"
	top("exit 0\n" + all)
	top("exit 0\n"+all, "--span=1h")
	top("exit 0\n"+all[:strings.Index(all, "3  ")], "-n1")
	code, printed := rig.Authz(t, "top", "--admin="+a.Admin, "--json", "-n1")
	var keys []map[string]any
	if err := json.Unmarshal([]byte(printed), &keys); err != nil || code != 0 || len(keys) != 1 || keys[0]["refused_at_least"] != 5.0 || keys[0]["refused_at_most"] != 5.0 {
		t.Errorf("%d %v %s", code, err, printed)
	}
	rig.Exactly(t, "exit 2\nauthz: top: --n=0: want 1 to 1024; see authz top --help\n", "top", "-n0")
	rig.Exactly(t, "exit 1\nauthz: top: --admin=127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused; is authz serve running, with this --admin?\n", "top", "--admin=127.0.0.1:1")
}
