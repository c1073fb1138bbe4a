package service

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/redisscripts"
	"authz/tests/rig"
)

// SIGTERM: no new connections, what is under way is answered with Connection: close, who is idle is let
// go, and the process ends well.
func TestSIGTERMAnswersWhatIsUnderWay(t *testing.T) {
	r := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow), "--redis="+r.URL(), "--redis-timeout=20s")
	// sixteen idle connections, as nginx keeps them; one that has sent nothing yet
	for range 16 {
		c, err := rig.Dial(a.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprint(c, "GET /nginx HTTP/1.1\r\nHost: a\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 403 {
			t.Fatal(resp, err)
		}
	}
	silent, err := rig.Dial(a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()

	a.Checker().Check(t, "GET /slow", nil) // the next one has to be held
	r.Signal(t, syscall.SIGSTOP)
	c, err := rig.Dial(a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-Method: GET\r\nX-Original-URI: /slow\r\n\r\n")
	rig.Await(t, "request under way", func() bool { return a.Metrics(t, "authz_held_answers") == "authz_held_answers 1\n" })
	a.Signal(t, syscall.SIGTERM)
	a.Await(t, "msg=draining")
	status, body := a.Get(t, "/readyz")
	if status != 503 || body != "draining\n" {
		t.Errorf("/readyz: %d %q, want 503", status, body)
	}
	r.Signal(t, syscall.SIGCONT)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || !resp.Close {
		t.Errorf("status %d, close %v, want 200 and Connection: close", resp.StatusCode, resp.Close)
	}
	if code := a.Wait(t); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if _, err := rig.Dial(a.Addr); err == nil {
		t.Error("somebody still listens")
	}
}

func TestSocketsAreListenedOn(t *testing.T) {
	dir := rig.SocketDir(t)
	file, socket := rig.LimitsFile(t, rig.Slow), filepath.Join(dir, "a.sock")
	a := rig.StartAuthz(t, "--limits="+file, "--listen=unix:"+socket, "--listen=127.0.0.1:0", "--socket-mode=0600")
	if len(a.Addrs) != 2 || a.Addrs[0] != "unix:"+socket {
		t.Fatalf("listens on %v", a.Addrs)
	}
	for i, want := range []string{"4", "3"} { // one set of buckets behind both
		if got := rig.NewChecker(a.Addrs[i]).Check(t, "GET /a", nil, "RateLimit"); !strings.Contains(got, ";r="+want+";") {
			t.Errorf("%s: %s, want %s left", a.Addrs[i], got, want)
		}
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v, want mode 0600", info.Mode(), err)
	}
	// one that lives is not taken over
	if code, printed := rig.Authz(t, "serve", "--limits="+file, "--listen=unix:"+socket, "--admin="); code != 1 || !strings.Contains(printed, "another process listens there") {
		t.Errorf("exit %d: %s", code, printed)
	}
	// one that was left by a process that was killed is replaced
	a.Cmd.Process.Kill()
	a.Wait(t)
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("the killed process took its socket away: %v", err)
	}
	a = rig.StartAuthz(t, "--limits="+file, "--listen=unix:"+socket)
	a.Checker().Check(t, "GET /a", nil)
	if code := a.Stop(t); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there after the end")
	}
}

// Flags go over variables, and those over defaults; the log can be JSON, whatever a client sends.
func TestTheEnvironmentStandsBehindTheFlags(t *testing.T) {
	a := rig.StartAuthz(t, "AUTHZ_LIMITS="+rig.LimitsFile(t, rig.Slow), "AUTHZ_LISTEN=127.0.0.1:0", "AUTHZ_ADMIN=127.0.0.1:0",
		"AUTHZ_HEADERS=legacy", "AUTHZ_LOG_LEVEL=warn", "--log-level=info", "AUTHZ_TRUSTED_PROXIES=127.0.0.1,10.0.0.0/8")
	got := a.Checker().Check(t, "GET /a", []string{"X-Real-IP: 203.0.113.9"}, "X-RateLimit-Limit", "X-RateLimit-Remaining", "RateLimit")
	if want := "200 X-RateLimit-Limit=5 X-RateLimit-Remaining=4"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAStrangerIsNotBelieved(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow), "--trusted-proxies=10.0.0.0/8")
	if got := a.Checker().Check(t, "GET /a", []string{"X-Real-IP: 192.0.2.1"}); got != "403" {
		t.Errorf("got %s, want 403", got)
	}
	if got := a.Metrics(t, "authz_ignored_headers_total"); got != "authz_ignored_headers_total 3\n" {
		t.Errorf("metrics: %swant 3: method, URI and address", got)
	}
	a.Await(t, `level=WARN msg="headers ignored: the peer is not one of --trusted-proxies" peer=127.0.0.1`)
}

func TestALogOfJSONIsJSON(t *testing.T) {
	socket := filepath.Join(rig.SocketDir(t), "s")
	a := rig.LaunchAuthz(t, "serve", "--limits="+rig.LimitsFile(t, rig.Slow), "--listen=unix:"+socket, "--admin=", "--log-format=json")
	a.Await(t, `"msg":"serving"`)
	c, err := rig.Dial("unix:" + socket)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, "GET /nginx HTTP/1.1\r\nHost: a\r\nX-Original-URI: /\xff\xfe\"\r\n\r\nbroken\"\xff\r\n\r\n")
	c.(interface{ CloseWrite() error }).CloseWrite()
	io.Copy(io.Discard, c)
	a.Stop(t)
	n := 0
	for line := range strings.Lines(a.Logged()) {
		n++
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if n < 5 {
		t.Errorf("%d lines, want the start, two warnings and the end:\n%s", n, a.Logged())
	}
}

// What a client or an operator keeps secret is nowhere but where it came from.
func TestSecretsAreNowhere(t *testing.T) {
	const secret = "s3cr3t"
	r := rig.StartRedis(t)
	if err := r.ConfigSet(t.Context(), "requirepass", secret+"-redis").Err(); err != nil {
		t.Fatal(err)
	}
	known := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket, Password: secret + "-redis"})
	defer known.Close()
	file := rig.LimitsFile(t, `
		[limit.a]
		key       = ["header:Authorization", "header:X-API-Key", "cookie:session", "query:token"]
		missing   = "share"
		algorithm = "sliding_window"
		rate      = "2/d"
		[override.a."x|y|z|`+secret+`-override"]
		rate = "3/d"`)
	password := filepath.Join(t.TempDir(), "password")
	rig.ReplaceFile(t, password, secret+"-redis\n")
	url := "unix://user:" + secret + "-url@" + r.Socket
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+url, "--redis-user=default", "--redis-password-file="+password, "--redis-timeout=20s", "--log-level=debug")
	ask := a.Checker()
	check := func(want string) {
		t.Helper()
		got := ask.Check(t, "GET /?token="+secret+"-query", []string{"Authorization: Bearer " + secret + "-bearer",
			"X-API-Key: " + secret + "-key", "Cookie: session=" + secret + "-cookie"}, "X-Authz-Limit", "X-Authz-Degraded")
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	check("200 X-Authz-Limit=a")
	check("200 X-Authz-Limit=a")
	check("429 X-Authz-Limit=a")
	keys, err := known.Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || strings.Contains(keys[0], secret) {
		t.Errorf("keys in Redis: %q, %v, want one without %s", keys, err, secret)
	}
	rig.ReplaceFile(t, password, secret+"-wrong\n")
	r.Signal(t, syscall.SIGKILL)
	<-r.Exited
	ask.Check(t, "GET /", nil)
	c, err := rig.Dial(a.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: a\r\nX: %s\x01\r\n\r\n", secret, secret)
	io.Copy(io.Discard, c)
	_, metrics := a.Get(t, "/metrics")
	_, explained := rig.Authz(t, "explain", "--limits="+file, "--uri=/?token="+secret, "-H", "X-API-Key: "+secret)
	_, compiled := rig.Authz(t, "compile", file)
	_, wrong := rig.Authz(t, "scripts", "load", "--redis="+url)
	for where, text := range map[string]string{"log": a.Logged(), "metrics": metrics, "explain": explained, "compile": compiled, "scripts load": wrong} {
		if text == "" || strings.Contains(text, secret) {
			t.Errorf("%s:\n%s\nwant it without %s", where, text, secret)
		}
	}
}

func TestScriptsLoadIntoRedis(t *testing.T) {
	r := rig.StartRedis(t)
	code, printed := rig.Authz(t, "scripts", "load", "--redis="+r.URL())
	if code != 0 {
		t.Fatalf("exit %d: %s", code, printed)
	}
	for _, s := range redisscripts.All() {
		if !regexp.MustCompile(`(?m)^` + s.Name + ` +v1  ` + s.SHA + `$`).MatchString(printed) {
			t.Errorf("%s is not in\n%s", s.Name, printed)
		}
		if known := r.ScriptExists(t.Context(), s.SHA).Val(); !known[0] {
			t.Errorf("Redis does not know %s", s.Name)
		}
	}
	if code, printed := rig.Authz(t, "scripts", "load"); code != 1 || printed != "authz: scripts load: want --redis URL\n" {
		t.Errorf("without --redis: exit %d: %s", code, printed)
	}
}

// What cannot be read is answered, and counted by what is wrong with it.
func TestWhatCannotBeReadIsCountedByKind(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow))
	const begun = "GET /nginx HTTP/1.1\r\nHost: a\r\n"
	for _, c := range []struct {
		kind, text string
		ends       bool // the client sends no more
	}{
		{"too_large", begun + "X: " + strings.Repeat("x", 100_000) + "\r\n\r\n", true},
		{"malformed", begun + "no header\r\n\r\n", true},
		{"too_slow", begun, false},
	} {
		conn, err := rig.Dial(a.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, c.text)
		if c.ends {
			conn.(*net.TCPConn).CloseWrite()
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 403 || resp.Header.Get("X-Authz-Status") != "403" {
			t.Errorf("%s: %v, %v, want 403", c.kind, resp, err)
		}
		name := `authz_rejected_requests_total{kind="` + c.kind + `"}`
		if got := a.Metrics(t, name); got != name+" 1\n" {
			t.Errorf("metrics: %swant %s 1", got, name)
		}
	}
}

// Who has used up all files that authz may open has to be waited for, and then it goes on.
func TestAListenerOutlivesAShortageOfFiles(t *testing.T) {
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.Slow), "--admin=")
	rig.Command(t, ".", "prlimit", "--pid", fmt.Sprint(a.Cmd.Process.Pid), "--nofile=30")
	var taken []net.Conn
	for range 40 {
		c, err := rig.Dial(a.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		taken = append(taken, c)
	}
	a.Await(t, `level=WARN msg="no connection can be accepted for now" error="accept tcp `)
	for _, c := range taken {
		c.Close()
	}
	if got := a.Checker().Check(t, "GET /a", nil); got != "200" {
		t.Errorf("after the shortage: %s, want 200", got)
	}
	if code := a.Stop(t); code != 0 {
		t.Errorf("exit %d, want 0", code)
	}
}
