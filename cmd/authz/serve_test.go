package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authz/internal/store/redisstore"
	"authz/internal/testkit"
)

// parsed is a command line that is right.
func parsed(t *testing.T, args ...string) *serveCmd {
	t.Helper()
	var c commands
	if _, err := parse(append([]string{"serve", "--limits=a.toml"}, args...), &c, &console{}); err != nil {
		t.Fatal(err)
	}
	return &c.Serve
}

func TestServeHasTheDefaultsThatItPromises(t *testing.T) {
	f := parsed(t)
	got := fmt.Sprintln(f.Limits, f.RedisPrefix, f.Listen, fmt.Sprintf("%#o", f.SocketMode), f.Admin, f.TrustedProxies, f.Headers, f.RetryAfterMax, f.HeldMax,
		f.MemoryBuckets, f.RedisTimeout, f.LogFormat, f.LogLevel)
	if want := "[a.toml] authz [127.0.0.1:7429] 0660 127.0.0.1:7430 [127.0.0.0/8 ::1 unix] ietf 0s 10000 1000000 50ms text INFO\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	f = parsed(t, "--limits=b,c.toml", "--retry-after-max=60s", "--trusted-proxies=10.0.0.1", "--trusted-proxies=unix")
	got = fmt.Sprintln(f.Limits, len(f.Limits), f.Headers, f.RetryAfterMax, f.TrustedProxies, f.peers.Unix)
	if want := "[a.toml b,c.toml] 2 ietf 1m0s [10.0.0.1 unix] true\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestThePasswordOfRedisComesFromWhereItMay(t *testing.T) {
	check := func(want string, args ...string) {
		t.Helper()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		url := "redis://ann:url@" + l.Addr().String()
		redis, err := redisstore.Open(parsed(t, append(args, "--redis="+url, "--redis-timeout=20s")...).options())
		if err != nil {
			t.Fatal(err)
		}
		defer redis.Close()
		go redis.Ping(t.Context())
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The first command is AUTH or HELLO ... AUTH, whose last two words are the user and the password.
		words, r := []string{}, bufio.NewReader(c)
		for len(words) == 0 || words[len(words)-1] != want[strings.LastIndex(want, " ")+1:] {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatalf("%v: Redis is sent %q and then %v, want %q", args, words, err, want)
			}
			if line = strings.TrimSpace(line); line[0] != '*' && line[0] != '$' {
				words = append(words, line)
			}
		}
		if got := strings.Join(words, " "); !strings.HasSuffix(got, want) {
			t.Errorf("%v: Redis is sent %q, want %q", args, got, want)
		}
	}
	check("ann url")
	check("ann flag", "--redis-password=flag")
	t.Setenv("AUTHZ_REDIS_PASSWORD", "env")
	check("ann env")
	check("ann flag", "--redis-password=flag")
	t.Setenv("AUTHZ_REDIS_USER", "bob")
	check("bob env")
	t.Setenv("AUTHZ_REDIS_PASSWORD", "")
	check("bob file", "--redis-password-file="+testkit.WriteFile(t, "password", "file\n"))
}

// serveHere runs this binary's serve until the test ends, and returns the socket that it listens on.
func serveHere(t *testing.T, args ...string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "authz") // a short name, as sockets want
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "s")
	cmd := exec.Command(os.Args[0], append([]string{"serve", "--listen=unix:" + socket, "--admin="}, args...)...)
	cmd.Env = append(os.Environ(), "AUTHZ_TEST_MAIN=1")
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := bufio.NewScanner(log)
	for read.Scan() && !strings.Contains(read.Text(), "msg=serving") {
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		io.Copy(io.Discard, log)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return socket
}

func TestWhatServeIsToldReachesItsAnswers(t *testing.T) {
	const ask = "X-Original-Method: GET\r\nX-Original-URI: /api/x\r\n"
	file := testkit.WriteFile(t, "limits.toml", "[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \"1/366d\"\n")
	socket := serveHere(t, "--limits="+file, "--retry-after-max=60s", "--headers=legacy")
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, strings.Repeat("GET /nginx HTTP/1.1\r\nHost: a\r\n"+ask+"\r\n", 2)+"GET /nginx HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+ask+"\r\n")
	answers, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(string(answers), "HTTP/1.1 403")
	if want := "Retry-After: 60\r\nX-RateLimit-Limit: 1\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 60\r\n"; strings.Count(got, want) != 2 {
		t.Errorf("got\n%swant twice\n%s", got, want)
	}
	if info, err := os.Stat(socket); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v, want mode 0660", info.Mode(), err)
	}
}

// A build whose scripts are not those that SHA1SUMS names answers nobody, whatever it would count in.
func TestOtherScriptsAreRefused(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	changed := testkit.WriteFile(t, "take.lua", "return 1\n")
	overlay, _ := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, "redisscripts/v1/take.lua"): changed}})
	binary := filepath.Join(t.TempDir(), "authz")
	build := exec.Command("go", "build", "-overlay="+testkit.WriteFile(t, "overlay.json", string(overlay)), "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = "authz: redisscripts/v1/take.lua: SHA-1 is 48df9b519ca145c867b895f740b37bd891e887af, want "
	file := testkit.WriteFile(t, "limits.toml", login)
	for _, args := range [][]string{
		{"serve", "--limits=" + file, "--listen=127.0.0.1:0", "--admin="},
		{"serve", "--limits=" + file, "--listen=127.0.0.1:0", "--admin=", "--redis=redis://127.0.0.1:1"},
		{"scripts", "list"},
		{"scripts", "load", "--redis=redis://127.0.0.1:1"},
		{"doctor", "--redis=redis://127.0.0.1:1"},
	} {
		cmd := exec.Command(binary, args...)
		var err bytes.Buffer
		cmd.Stderr = &err
		cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.HasPrefix(err.String(), want) {
			t.Errorf("%v: exit %d, %s\nwant exit 1, %s", args, code, &err, want)
		}
	}
}
