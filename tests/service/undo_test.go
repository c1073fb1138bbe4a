package service

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"authz/tests/rig"
)

const adminToken = "0123456789abcdef0123"

func tokenFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	rig.ReplaceFile(t, path, adminToken+"\n")
	return path
}

const undoneLimits = rig.UndoLimits + `
	[limit.cold]
	match     = { path = "/cold" }
	key       = ["ip"]
	algorithm = "token_bucket"
	rate      = "10/d"
	initial   = 0.4`

// isUndone, of an authz with undoneLimits, uses up login of 192.0.2.7 and has it reset, while 192.0.2.8 stays refused; and a secret's bucket.
func isUndone(t *testing.T, a *rig.AuthzServer, where ...string) {
	t.Helper()
	ask := func(path, header string) string { return a.Checker().Check(t, "GET "+path, []string{header}) }
	useUp := func(path, header string) {
		for ask(path, header) != "429" {
		}
	}
	useUp("/login", "X-Real-IP: 192.0.2.7")
	useUp("/login", "X-Real-IP: 192.0.2.8")
	useUp("/plan", "X-API-Key: s3cr3t")
	with := func(words ...string) []string { return append(words, where...) }
	const login = "limit.login: sliding_window, 2/d\n  key    ip=192.0.2.7\n  redis  authz:v1:{ip=192.0.2.7}:login:sw\n"
	const used = login + "  bucket 0 of 2 left, the next in T, as never used in T\n"
	const unused = login + "  bucket as never used: 2 of 2 left\n"
	rig.Exactly(t, "exit 0\n"+used, with("get", "login", "192.0.2.7")...)
	rig.Exactly(t, "exit 0\n"+used+"nothing was deleted: want --yes\n", with("reset", "login", "ip=192.0.2.7")...)
	rig.Same(t, ask("/login", "X-Real-IP: 192.0.2.7"), "429")
	if code, printed := rig.Authz(t, with("reset", "--yes", "login", "192.0.2.7")...); code != 0 || !strings.Contains(printed, "\ndeleted\n") {
		t.Errorf("exit %d, %s", code, printed)
	}
	rig.Await(t, "admission after the reset", func() bool { return ask("/login", "X-Real-IP: 192.0.2.7") == "200" })
	rig.Same(t, ask("/login", "X-Real-IP: 192.0.2.7"), "200") // the second of two: all of it is back
	rig.Same(t, ask("/login", "X-Real-IP: 192.0.2.7"), "429")
	rig.Same(t, ask("/login", "X-Real-IP: 192.0.2.8"), "429")

	rig.Exactly(t, "exit 1\n"+strings.ReplaceAll(unused, "2.7", "2.9")+"there is nothing to delete\n", with("reset", "login", "192.0.2.9")...)
	rig.Exactly(t, "exit 2\nauthz: get: limit \"logn\": no such limit, want one of cold, login, plan\n", with("get", "logn", "192.0.2.9")...)
	rig.Exactly(t, "exit 2\nauthz: reset: limit.login: key \"ann\": \"ann\" is no address, want \"203.0.113.9\", or what explain says of it: \"ip=203.0.113.9\"\n",
		with("reset", "login", "ann", "--yes")...)

	const plan = "limit.plan: token_bucket, 4/d, burst 4 (by an override)\n  key    header:x-api-key=*4e738ca5563c06cfd0018299933d58db\n" +
		"  redis  authz:v1:{header:x-api-key=*4e738ca5563c06cfd0018299933d58db}:plan:tb\n"
	rig.Exactly(t, "exit 0\n"+plan+"  bucket 0 of 4 left, the next in T, full in T\n", with("get", "plan", "s3cr3t")...)

	const json = `{"limit":"login","key":"ip=192.0.2.9","redis_key":"authz:v1:{ip=192.0.2.9}:login:sw","exists":false,"algorithm":"sliding_window",` +
		`"rate":"2/d","burst":0,"capacity":2,"remaining":2,"wait_us":0,"reset_us":0,"shadow":false`
	rig.Exactly(t, "exit 0\n"+json+"}\n", with("get", "login", "192.0.2.9", "--json")...)
	rig.Exactly(t, "exit 1\n"+json+",\"deleted\":false}\n", with("reset", "login", "192.0.2.9", "--json", "--yes")...)
	const cold = "limit.cold: token_bucket, 10/d, burst 10\n  key    ip=192.0.2.9\n  redis  authz:v1:{ip=192.0.2.9}:cold:tb\n"
	rig.Exactly(t, "exit 1\n"+cold+"  bucket as never used: 4 of 10 left\nthere is nothing to delete\n", with("reset", "cold", "192.0.2.9")...)
	rig.Same(t, ask("/cold", "X-Real-IP: 192.0.2.9"), "200")
	rig.Exactly(t, "exit 0\n"+cold+"  bucket 3 of 10 left, full in T\nnothing was deleted: want --yes\n", with("reset", "cold", "192.0.2.9")...)
	if strings.Contains(a.Logged(), "s3cr3t") {
		t.Error("the log has a secret in it")
	}
}

func TestABucketInMemoryIsLookedAtAndReset(t *testing.T) {
	t.Parallel()
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, undoneLimits), "--admin-token-file="+tokenFile(t))
	isUndone(t, a, "--admin=http://"+a.Admin, "--admin-token-file="+tokenFile(t))
	a.Await(t, "bucket reset")
	rig.Same(t, regexp.MustCompile(`level=INFO msg="bucket reset".* by="`).FindString(a.Logged()), `level=INFO msg="bucket reset" limit=login key="ip=192.0.2.7" redis_key="authz:v1:{ip=192.0.2.7}:login:sw" deleted=true by="`)
}

// On a unix socket no token is asked for: the file says who may. The README's account may do all of it.
func TestABucketInRedisIsResetOverASocket(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	socket := "unix:" + filepath.Join(rig.SocketDir(t), "admin.sock")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, undoneLimits), "--redis="+r.Account(t, "authz"), "--redis-timeout=20s", "--admin="+socket,
		"--socket-mode=0666")
	// The checks' socket is for nginx's group; this one is not.
	if info, err := os.Stat(strings.TrimPrefix(socket, "unix:")); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v, want a socket of mode 0600", info.Mode(), err)
	}
	isUndone(t, a, "--admin="+socket)
}

// Whoever decides inside OpenResty alone has no admin listener.
func TestABucketIsResetStraightInRedis(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	file := rig.LimitsFile(t, undoneLimits)
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s")
	isUndone(t, a, "--limits="+file, "--redis="+r.Account(t, "authz"))

	// Whoever may delete a bucket and not say so is told; the audit line is there all the same.
	code, printed := rig.Authz(t, "reset", "login", "192.0.2.8", "--yes", "--limits="+file, "--redis="+r.Account(t, "mute", "-set"))
	const halfway = `limit.login: authz:v1:{ip=192.0.2.8}:login:sw is deleted, but authz:v1:epoch cannot be written, so that remembered refusals ` +
		`go on until they are over: reset once more: noperm: NOPERM `
	if code != 1 || !strings.Contains(printed, "\nauthz: reset: "+halfway) || !strings.Contains(printed, `level=WARN msg="bucket not reset" limit=login `+
		`key="ip=192.0.2.8" redis_key="authz:v1:{ip=192.0.2.8}:login:sw" deleted=true by=`) {
		t.Errorf("exit %d, %s", code, printed)
	}
	rig.Exactly(t, "exit 1\nauthz: get: limit.login: authz:v1:{ip=192.0.2.7}:login:sw cannot be read: network: dial unix "+r.Socket+"x: connect: no such file or directory\n",
		"get", "login", "192.0.2.7", "--limits="+file, "--redis="+r.URL()+"x")
}

func TestABucketInAClusterIsReset(t *testing.T) {
	t.Parallel()
	c := rig.StartCluster(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, undoneLimits), "--redis="+c.Account(t, "authz", rig.ClusterAccount(t)...), "--redis-timeout=20s",
		"--admin-token-file="+tokenFile(t))
	isUndone(t, a, "--admin="+a.Admin, "--admin-token-file="+tokenFile(t))
}

// While Redis is away an instance counts by itself: that can be undone, and what it has remembered of Redis.
func TestAResetWhileRedisIsAwayIsOneOfThisInstance(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	socket := "unix:" + filepath.Join(rig.SocketDir(t), "admin.sock")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.UndoLimits), "--redis="+r.URL(), "--redis-timeout=20s", "--admin="+socket)
	asked := func(want ...string) {
		t.Helper()
		for i, w := range want {
			if got := a.Checker().Check(t, "GET /login", []string{"X-Real-IP: 192.0.2.7"}, "X-Authz-Degraded"); got != w {
				t.Errorf("request %d: %s, want %s", i+1, got, w)
			}
		}
	}
	const local = " X-Authz-Degraded=local"
	cannot := func(want string, args ...string) {
		t.Helper()
		code, printed := rig.Authz(t, append(args, "login", "192.0.2.7", "--admin="+socket)...)
		printed = regexp.MustCompile(`read: (network|breaker): [^;]*`).ReplaceAllString(printed, "read: KIND: TEXT")
		if got := fmt.Sprintf("exit %d\n%s", code, strings.TrimSpace(printed)); got != "exit 1\n"+want {
			t.Errorf("%v: got\n%s\nwant\n%s", args, got, want)
		}
	}
	const away = "limit.login: authz:v1:{ip=192.0.2.7}:login:sw cannot be read: KIND: TEXT"
	asked("200", "200", "429")
	r.Kill(t)
	asked("429") // is remembered
	cannot("authz: get: "+away, "get")
	cannot("authz: reset: "+away, "reset")
	asked("429")
	cannot("authz: reset: "+away, "reset", "--yes")
	asked("200"+local, "200"+local, "429"+local)
	cannot("authz: reset: "+away+"; what this instance has counted by itself is deleted", "reset", "--yes")
	asked("200"+local, "200"+local, "429"+local)
	a.Await(t, `level=WARN msg="bucket not reset" limit=login key="ip=192.0.2.7" redis_key="authz:v1:{ip=192.0.2.7}:login:sw" deleted=false by=`, 2)
	a.Await(t, "deleted_here=true error=")
}

// Another instance and OpenResty remember a refusal, and forget it within a second.
func TestAResetIsHeardByAll(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	file := rig.LimitsFile(t, rig.UndoLimits)
	flags := []string{"--limits=" + file, "--redis=" + r.URL(), "--redis-timeout=20s", "--admin-token-file=" + tokenFile(t)}
	one, other := rig.StartAuthz(t, flags...), rig.StartAuthz(t, flags...)
	s := rig.StartPack(t, r, "", rig.SiteConf{Limits: rig.UndoLimits})
	const me = "X-Real-IP: 127.0.0.1" // who asks the pack
	for range 2 {
		rig.Same(t, one.Checker().Check(t, "GET /login", []string{me}), "200")
	}
	refused := func() string {
		return one.Checker().Check(t, "GET /login", []string{me}) + " " + other.Checker().Check(t, "GET /login", []string{me}) + " " +
			s.SendAll(t, 1, "GET /login")
	}
	rig.Same(t, refused(), "429 429 429")
	begun := time.Now()
	code, printed := rig.Authz(t, "reset", "login", "127.0.0.1", "--yes", "--admin="+one.Admin, "--admin-token-file="+tokenFile(t))
	if code != 0 {
		t.Fatal(printed)
	}
	rig.Await(t, "the other instance to ask Redis", func() bool { return other.Checker().Check(t, "GET /login", []string{me}) == "200" })
	rig.Await(t, "the pack to ask Redis", func() bool { return s.SendAll(t, 1, "GET /login") == "200" })
	t.Logf("all have forgotten %v after the reset", time.Since(begun))
	if n := r.Exists(context.Background(), "authz:v1:epoch").Val(); n != 1 {
		t.Error("no epoch")
	}
}

// Nothing is changed for whoever has no token, or is a page of another site.
func TestTheAdminListenerIsGuarded(t *testing.T) {
	t.Parallel()
	token := tokenFile(t)
	file := rig.LimitsFile(t, rig.UndoLimits)
	a := rig.StartAuthz(t, "--limits="+file, "--admin-token-file="+token)
	open := rig.StartAuthz(t, "--limits="+file)
	send := func(want string, of *rig.AuthzServer, method, path string, form url.Values, header ...string) {
		t.Helper()
		request := httptest.NewRequest(method, "http://"+of.Admin+path, strings.NewReader(form.Encode()))
		request.RequestURI = ""
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			if request.Header.Set(name, value); name == "Host" {
				request.Host = value
			}
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		if got := fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text))); got != want {
			t.Errorf("%s %s %v: got\n%s\nwant\n%s", method, path, header, got, want)
		}
	}
	form := url.Values{"limit": {"login"}, "key": {"192.0.2.7"}}
	const bearer = "Authorization: Bearer " + adminToken
	const done = `200 {"limit":"login","key":"ip=192.0.2.7","redis_key":"authz:v1:{ip=192.0.2.7}:login:sw","exists":false,"algorithm":"sliding_window",` +
		`"rate":"2/d","burst":0,"capacity":2,"remaining":2,"wait_us":0,"reset_us":0,"shadow":false,"deleted":false}`
	send(done, a, "POST", "/reset", form, bearer)
	send(`403 {"error":"want the token of --admin-token-file"}`, a, "POST", "/reset", form)
	send(`403 {"error":"the token is wrong, want that of --admin-token-file"}`, a, "POST", "/reset", form, bearer+"4")
	send(`403 {"error":"want the token of --admin-token-file"}`, a, "POST", "/reset", form, "Authorization: Basic "+adminToken)
	send(`403 {"error":"a page of another site has sent this"}`, a, "POST", "/reset", form, bearer, "Sec-Fetch-Site: cross-site")
	send(`403 {"error":"a page of another site has sent this"}`, a, "POST", "/reset", form, bearer, "Origin: http://evil.test")
	send(`403 {"error":"Host: evil.test, want localhost or an address: this listener is for this machine"}`, a, "POST", "/reset", form, bearer, "Host: evil.test")
	send(`403 {"error":"Host: evil.test, want localhost or an address: this listener is for this machine"}`, a, "GET", "/bucket?limit=login&key=192.0.2.7", nil, "Host: evil.test:80")
	send(done, a, "POST", "/reset", form, bearer, "Host: localhost:7430")
	send("405 Method Not Allowed", a, "GET", "/reset?limit=login&key=192.0.2.7", nil, bearer)
	send(`403 {"error":"this authz serve was started without a token, and changes nothing: start it with --admin-token-file=FILE and give reset the same, or with --admin=unix:/path; without a restart, reset asks Redis itself by --redis and --limits"}`, open, "POST", "/reset", form, bearer)
	form.Set("token", adminToken)
	send(done, a, "POST", "/reset", form)
	send(`400 {"error":"limit \"x\": no such limit, want one of login, plan"}`, a, "GET", "/bucket?limit=x", nil)
	const where = "--admin=127.0.0.1:"
	_, port, _ := strings.Cut(a.Admin, ":")
	rig.Exactly(t, "exit 1\nauthz: reset: want the token of --admin-token-file\n", "reset", "login", "192.0.2.7", "--yes", where+port)
	rig.Exactly(t, "exit 1\nauthz: get: "+where+"1: dial tcp 127.0.0.1:1: connect: connection refused; is authz serve running, with this --admin?\n",
		"get", "login", "192.0.2.7", where+"1")

	// The token is read anew.
	rig.ReplaceFile(t, token, "another-token-of-20-chars")
	send(`403 {"error":"the token is wrong, want that of --admin-token-file"}`, a, "POST", "/reset", form)
	send(done, a, "POST", "/reset", url.Values{"limit": {"login"}, "key": {"192.0.2.7"}}, "Authorization: Bearer another-token-of-20-chars")
	if err := os.Remove(token); err != nil {
		t.Fatal(err)
	}
	send(`403 {"error":"--admin-token-file=`+token+`: no such file or directory"}`, a, "POST", "/reset", form)
	rig.Same(t, fmt.Sprint(a.Counted(t, "authz_admin_denied_total")), "8")
	a.Await(t, `level=WARN msg="write refused on the admin listener" peer=`)
	rig.Same(t, fmt.Sprint(strings.Count(a.Logged(), "write refused"), strings.Contains(a.Logged(), adminToken)), "1 false")
}
