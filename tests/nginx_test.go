package tests

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// nginxServer is a real nginx of this test's own, with its folder, ports and logs.
type nginxServer struct {
	dir    string
	addr   string   // 127.0.0.1:PORT
	addrH2 string   // the same for HTTP/2 without TLS
	from   string   // the address that clients send from, 127.0.0.1 if empty
	mayLog []string // lines with one of these may stand in the error log
	cmd    *exec.Cmd
	exited chan struct{}
}

// alarms are what must not be in an error log: auth_request got something other than 200 or 403, an
// answer did not fit nginx's buffers, Lua wrote a global, or nginx itself is in trouble.
var alarms = []string{"unexpected status", "too big header", "writing a global Lua variable", "[crit]", "[alert]", "[emerg]"}

// startNginx starts nginx with conf as what stands in http{}, and ends it with the test, which fails
// when an alarm is in the error log. LISTEN and LISTEN_H2 in conf are free loopback ports. Beside
// nginx.conf stand the project's includes, in authz/, and files, by name. What stands in events{} may
// be given too; else a crowd has room.
func startNginx(t testing.TB, conf string, files map[string]string, events ...string) *nginxServer {
	t.Helper()
	return startNginxWith(t, "worker_processes 1;", conf, files, events...)
}

// startNginxWith is startNginx with main as what stands before http{}.
func startNginxWith(t testing.TB, main, conf string, files map[string]string, events ...string) *nginxServer {
	t.Helper()
	n := &nginxServer{dir: t.TempDir(), exited: make(chan struct{})}
	if strings.Join(events, "") == "" {
		events = []string{"worker_connections 4096;"}
	}
	for name, text := range shippedIncludes(t) {
		n.write(t, name, text)
	}
	for name, text := range files {
		n.write(t, name, text)
	}

	// The sockets are handed over open, as nginx does for itself when its binary is upgraded: a port
	// that was only looked up could be somebody else's by now.
	n.cmd = exec.Command("nginx", "-p", n.dir, "-c", filepath.Join(n.dir, "nginx.conf"), "-e", "stderr")
	n.cmd.Env = append(os.Environ(), "NGINX=3;4;")
	for _, addr := range []*string{&n.addr, &n.addrH2} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		socket, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		n.cmd.ExtraFiles = append(n.cmd.ExtraFiles, socket)
		*addr = l.Addr().String()
	}
	conf = strings.NewReplacer("LISTEN_H2", n.addrH2, "LISTEN", n.addr).Replace(conf)
	n.write(t, "nginx.conf", `
		daemon off;
		user root;                       # workers read temporary folders and unix sockets
		`+main+`
		worker_shutdown_timeout 5s;
		pid nginx.pid;
		error_log stderr notice;
		error_log error.log notice;
		events { `+strings.Join(events, "")+` }
		http {
			access_log access.log;
			client_body_temp_path temp; proxy_temp_path temp;
			fastcgi_temp_path temp; scgi_temp_path temp; uwsgi_temp_path temp;
			`+conf+`
		}`)
	awaitLine(t, n.cmd, n.exited, "start worker process ")
	for _, socket := range n.cmd.ExtraFiles {
		unblock(t, socket)
	}
	t.Cleanup(func() {
		n.quit(t)
		n.checkErrorLog(t)
	})
	return n
}

// unblock undoes what os/exec does to a socket that it hands over. Two workers wake for one connection,
// and the one that comes too late must not wait in accept for the next.
func unblock(t testing.TB, socket *os.File) {
	t.Helper()
	conn, err := socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// shippedIncludes are the files that users add, as they are.
func shippedIncludes(t testing.TB) map[string]string {
	t.Helper()
	names, err := filepath.Glob("../nginx/*.conf")
	if err != nil || len(names) == 0 {
		t.Fatal("no includes in ../nginx", err)
	}
	files := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files["authz/"+filepath.Base(name)] = string(text)
	}
	return files
}

func (n *nginxServer) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(n.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *nginxServer) read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// quit lets nginx answer what it has and returns when it is gone: its logs are complete then.
func (n *nginxServer) quit(t testing.TB) {
	t.Helper()
	n.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-n.exited:
	case <-time.After(30 * time.Second):
		t.Error("nginx did not end within 30 s of SIGQUIT")
		n.cmd.Process.Kill()
	}
}

func (n *nginxServer) checkErrorLog(t testing.TB) {
	t.Helper()
	for line := range strings.Lines(n.read(t, "error.log")) {
		if containsAny(line, alarms) && !containsAny(line, n.mayLog) {
			t.Errorf("error.log: %s", line)
		}
	}
}

func containsAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

func TestAnNginxStarts(t *testing.T) {
	n := startNginx(t, `server { listen LISTEN; listen LISTEN_H2 http2; return 200 "$server_protocol $uri"; }`, nil)
	for want, send := range map[string]sender{"HTTP/1.1 /a": n.send, "HTTP/2.0 /a": n.sendH2} {
		if got := send(t, "GET /a", ""); got.status != 200 || got.body != want {
			t.Errorf("%d %q, want 200 %q", got.status, got.body, want)
		}
	}
}
