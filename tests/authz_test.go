package tests

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
	build := exec.Command("go", append(append([]string{"build"}, buildFlags...), "-o", path, "authz/cmd/authz")...)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", build.Args, err, out)
	}
	return path, nil
})

var binaryDir string

func TestMain(m *testing.M) {
	// Else each authz with the race detector sleeps for a second before it exits with 0.
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=10")
	}
	code := m.Run()
	os.RemoveAll(binaryDir)
	os.Exit(code)
}

func authzBinary(t testing.TB) string {
	t.Helper()
	path, err := buildAuthz()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// authz runs a command to its end and returns its exit code and all that it printed.
func authz(t testing.TB, args ...string) (code int, printed string) {
	t.Helper()
	cmd := exec.Command(authzBinary(t), args...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// authzServer is a running `authz serve` of this test's own.
type authzServer struct {
	addr   string   // of the first --listen: host:port or unix:/path
	addrs  []string // of all
	admin  string   // host:port
	cmd    *exec.Cmd
	exited chan struct{} // closed when the process is gone

	mu    sync.Mutex
	log   bytes.Buffer
	grown chan struct{} // closed, and made anew, with each line of the log
}

// startAuthz starts `authz serve` with these flags, on free ports unless they say where, and returns
// when it serves. An argument with "=" and no "--" goes to its environment. It is killed with the test
// unless it was stopped, and its log is shown if the test failed.
func startAuthz(t testing.TB, args ...string) *authzServer {
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
	a := launchAuthz(t, append([]string{"serve"}, args...)...)
	a.await(t, "msg=serving ")
	for _, m := range regexp.MustCompile(`msg=listening for=(\w+) addr=(\S+)`).FindAllStringSubmatch(a.logged(), -1) {
		if m[1] == "admin" {
			a.admin = m[2]
		} else {
			a.addrs = append(a.addrs, m[2])
		}
	}
	a.addr = a.addrs[0]
	return a
}

// launchAuthz starts authz and waits for nothing.
func launchAuthz(t testing.TB, args ...string) *authzServer {
	t.Helper()
	return launchBinary(t, authzBinary(t), args...)
}

func launchBinary(t testing.TB, path string, args ...string) *authzServer {
	t.Helper()
	a := &authzServer{exited: make(chan struct{}), grown: make(chan struct{})}
	a.cmd = exec.Command(path)
	a.cmd.Env = os.Environ()
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") || !strings.Contains(arg, "=") {
			a.cmd.Args = append(a.cmd.Args, arg)
		} else {
			a.cmd.Env = append(a.cmd.Env, arg)
		}
	}
	out, err := a.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go a.read(bufio.NewScanner(out))
	t.Cleanup(func() {
		a.cmd.Process.Kill()
		<-a.exited
		if t.Failed() {
			t.Logf("the log of authz:\n%s", a.logged())
		}
	})
	return a
}

func (a *authzServer) read(lines *bufio.Scanner) {
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		a.mu.Lock()
		fmt.Fprintln(&a.log, lines.Text())
		close(a.grown)
		a.grown = make(chan struct{})
		a.mu.Unlock()
	}
	a.cmd.Wait()
	close(a.exited)
}

func (a *authzServer) logged() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.log.String()
}

// await waits until the log has want, n times if n is given.
func (a *authzServer) await(t testing.TB, want string, n ...int) {
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
		case <-a.exited:
			if strings.Count(a.logged(), want) >= times {
				return
			}
			t.Fatalf("authz ended before it said %q:\n%s", want, a.logged())
		case <-time.After(time.Minute):
			t.Fatalf("authz did not say %q:\n%s", want, a.logged())
		}
	}
}

func (a *authzServer) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	signalTo(t, a.cmd, sig)
}

// stop asks it to end and returns its exit code.
func (a *authzServer) stop(t testing.TB) int {
	t.Helper()
	a.signal(t, syscall.SIGTERM)
	return a.wait(t)
}

// wait waits for the end and returns the exit code.
func (a *authzServer) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-a.exited:
		return a.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		t.Fatal("authz did not end within a minute")
		return -1
	}
}

// dial connects to an address as the log writes it.
func dial(addr string) (net.Conn, error) {
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		return net.Dial("unix", path)
	}
	return net.Dial("tcp", addr)
}

// A checker asks an authz as nginx does, over connections that stay open. Its clients are at 127.0.0.1, unless a header
// names another address.
type checker struct {
	client http.Client
	addr   string
}

func (a *authzServer) checker() *checker { return newChecker(a.addr) }

func newChecker(addr string) *checker {
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(addr) }}
	return &checker{client: http.Client{Transport: transport, Timeout: 30 * time.Second}, addr: addr}
}

// check asks about "METHOD /target" and returns what the client is to see and the named headers that
// are there: "429 Retry-After=7". header is lines of "Name: value".
func (c *checker) check(t testing.TB, line string, header []string, show ...string) string {
	t.Helper()
	text, err := c.try(line, header, show...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (c *checker) try(line string, header []string, show ...string) (string, error) {
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

// limitsFile writes a limits file for this test and returns its path.
func limitsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.toml")
	replaceFile(t, path, text)
	return path
}

// replaceFile writes a file as careful programs do: another, renamed over it.
func replaceFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// metrics is the lines of /metrics that begin with one of these.
func (a *authzServer) metrics(t testing.TB, prefixes ...string) string {
	t.Helper()
	var lines strings.Builder
	_, text := a.get(t, "/metrics")
	for line := range strings.Lines(text) {
		for _, p := range prefixes {
			if strings.HasPrefix(line, p) {
				lines.WriteString(line)
			}
		}
	}
	return lines.String()
}

// get asks the admin listener.
func (a *authzServer) get(t testing.TB, path string) (status int, body string) {
	t.Helper()
	resp, err := http.Get("http://" + a.admin + path)
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
