// Package rig starts real servers for tests: authz, nginx, Redis alone, as a cluster or with Sentinels, and what stands
// between them.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// buildAuthz builds the binary once for all tests and returns its path. TestMain removes it.
var buildAuthz = sync.OnceValues(func() (string, error) {
	var err error
	if binaryDir, err = os.MkdirTemp("", "authz"); err != nil {
		return "", err
	}
	path := filepath.Join(binaryDir, "authz")
	build := exec.Command("go", append(append([]string{"build"}, BuildFlags...), "-o", path, "authz/cmd/authz")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	return path, nil
})

var binaryDir string

func Main(m *testing.M) {
	if err := os.Chdir(".."); err != nil { // a test names files as tests/ sees them
		panic(err)
	}
	// Else each authz with the race detector sleeps for a second before it exits with 0.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=10")
	}
	code := m.Run()
	os.RemoveAll(binaryDir)
	os.Exit(code)
}

func AuthzBinary(t testing.TB) string {
	t.Helper()
	path, err := buildAuthz()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Authz runs a command to its end and returns its exit code and all that it printed.
func Authz(t testing.TB, args ...string) (code int, printed string) {
	t.Helper()
	cmd := exec.Command(AuthzBinary(t), args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// AuthzServer is a running `authz serve` of this test's own.
type AuthzServer struct {
	Addr   string   // of the first --listen: host:port or unix:/path
	Addrs  []string // of all
	Admin  string   // host:port
	Cmd    *exec.Cmd
	Exited chan struct{} // closed when the process is gone

	mu    sync.Mutex
	log   bytes.Buffer
	grown chan struct{} // closed, and made anew, with each line of the log
}

// StartAuthz starts `authz serve` with these flags, on free ports unless they say where, and returns
// when it serves. An argument with "=" and no "--" goes to its environment. It is killed with the test
// unless it was stopped, and its log is shown if the test failed.
func StartAuthz(t testing.TB, args ...string) *AuthzServer {
	t.Helper()
	given := map[string]bool{}
	for _, arg := range args {
		name, _, _ := strings.Cut(arg, "=")
		given[name] = true
	}
	for _, flag := range []struct{ name, env string }{{"--listen", "AUTHZ_LISTEN"}, {"--admin", "AUTHZ_ADMIN"}} {
		if !given[flag.name] && !given[flag.env] {
			args = append(args, flag.name+"=127.0.0.1:0")
		}
	}
	a := LaunchAuthz(t, append([]string{"serve"}, args...)...)
	a.Await(t, "msg=serving ")
	for _, m := range regexp.MustCompile(`msg=listening for=(\w+) addr=(\S+)`).FindAllStringSubmatch(a.Logged(), -1) {
		if m[1] == "admin" {
			a.Admin = m[2]
		} else {
			a.Addrs = append(a.Addrs, m[2])
		}
	}
	a.Addr = a.Addrs[0]
	return a
}

// LaunchAuthz starts authz and waits for nothing.
func LaunchAuthz(t testing.TB, args ...string) *AuthzServer {
	t.Helper()
	return LaunchBinary(t, AuthzBinary(t), args...)
}

func LaunchBinary(t testing.TB, path string, args ...string) *AuthzServer {
	t.Helper()
	a := &AuthzServer{Exited: make(chan struct{}), grown: make(chan struct{})}
	a.Cmd = exec.Command(path)
	a.Cmd.Env = os.Environ()
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") || !strings.Contains(arg, "=") {
			a.Cmd.Args = append(a.Cmd.Args, arg)
		} else {
			a.Cmd.Env = append(a.Cmd.Env, arg)
		}
	}
	out, err := a.Cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go a.read(bufio.NewScanner(out))
	t.Cleanup(func() {
		a.Cmd.Process.Kill()
		<-a.Exited
		if t.Failed() {
			t.Logf("the log of authz:\n%s", a.Logged())
		}
	})
	return a
}

func (a *AuthzServer) read(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a.mu.Lock()
		fmt.Fprintln(&a.log, lines.Text())
		close(a.grown)
		a.grown = make(chan struct{})
		a.mu.Unlock()
	}
	a.Cmd.Wait()
	close(a.Exited)
}

func (a *AuthzServer) Logged() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

// Await waits until the log has want, n times if n is given.
func (a *AuthzServer) Await(t testing.TB, want string, n ...int) {
	t.Helper()
	times := 1
	if len(n) > 0 {
		times = n[0]
	}
	for {
		a.mu.Lock()
		found, grown := strings.Count(a.log.String(), want) >= times, a.grown
		a.mu.Unlock()
		if found {
			return
		}
		select {
		case <-grown:
		case <-a.Exited:
			if strings.Count(a.Logged(), want) >= times {
				return
			}
			t.Fatalf("authz ended before it said %q:\n%s", want, a.Logged())
		case <-time.After(time.Minute):
			t.Fatalf("authz did not say %q:\n%s", want, a.Logged())
		}
	}
}

func (a *AuthzServer) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	SignalTo(t, a.Cmd, sig)
}

// Stop asks it to end and returns its exit code.
func (a *AuthzServer) Stop(t testing.TB) int {
	t.Helper()
	a.Signal(t, syscall.SIGTERM)
	return a.Wait(t)
}

// Wait waits for the end and returns the exit code.
func (a *AuthzServer) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-a.Exited:
		return a.Cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		t.Fatal("authz did not end within a minute")
		return -1
	}
}

// Dial connects to an address as the log writes it.
func Dial(addr string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return net.Dial("unix", path)
	}
	return net.Dial("tcp", addr)
}

// A Checker asks an authz as nginx does, over connections that stay open. Its clients are at 127.0.0.1, unless a header
// names another address.
type Checker struct {
	client http.Client
	addr   string
}

func (a *AuthzServer) Checker() *Checker { return NewChecker(a.Addr) }

func NewChecker(addr string) *Checker {
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(context.Context, string, string) (net.Conn, error) { return Dial(addr) }}
	return &Checker{client: http.Client{Transport: transport, Timeout: 30 * time.Second}, addr: addr}
}

// Check asks about "METHOD /target" and returns what the client is to see and the named headers that
// are there: "429 Retry-After=7". header is lines of "Name: value".
func (c *Checker) Check(t testing.TB, line string, header []string, show ...string) string {
	t.Helper()
	text, err := c.Try(line, header, show...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (c *Checker) Try(line string, header []string, show ...string) (string, error) {
	method, target, _ := strings.Cut(line, " ")
	req, err := http.NewRequest("GET", "http://authz/nginx", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-Original-Method", method)
	req.Header.Set("X-Original-URI", target)
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Add(name, value)
	}
	if req.Header.Get("X-Real-IP") == "" {
		req.Header.Set("X-Real-IP", "127.0.0.1")
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	resp.Body.Close()
	text := resp.Header.Get("X-Authz-Status")
	if want := map[string]int{"200": 200, "429": 403, "403": 403, "503": 403}[text]; resp.StatusCode != want {
		return "", fmt.Errorf("%s: status %d with X-Authz-Status %q, want %d", line, resp.StatusCode, text, want)
	}
	for _, name := range show {
		for _, value := range resp.Header.Values(name) {
			text += " " + name + "=" + value
		}
	}
	return text, nil
}

// LimitsFile writes a limits file for this test and returns its path.
func LimitsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.toml")
	ReplaceFile(t, path, text)
	return path
}

// ReplaceFile writes a file as careful programs do: another, renamed over it.
func ReplaceFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Metrics is the lines of /metrics that begin with one of these.
func (a *AuthzServer) Metrics(t testing.TB, prefixes ...string) string {
	t.Helper()
	var lines strings.Builder
	_, text := a.Get(t, "/metrics")
	for line := range strings.Lines(text) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				lines.WriteString(line)
			}
		}
	}
	return lines.String()
}

// Get asks the admin listener.
func (a *AuthzServer) Get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + a.Admin + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}
