package rig

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

// NginxServer is a real nginx of this test's own, with its folder, ports and logs.
type NginxServer struct {
	Dir    string
	Addr   string   // 127.0.0.1:PORT
	addrH2 string   // the same for HTTP/2 without TLS
	From   string   // the address that clients send from, 127.0.0.1 if empty
	MayLog []string // lines with one of these may stand in the error log
	Cmd    *exec.Cmd
	Exited chan struct{}
}

// alarms are what must not be in an error log: auth_request got something other than 200 or 403, an
// answer did not fit nginx's buffers, Lua wrote a global, or nginx itself is in trouble.
var alarms = []string{"unexpected status", "too big header", "writing a global Lua variable", "[crit]", "[alert]", "[emerg]"}

// StartNginx starts nginx with conf as what stands in http{}, and ends it with the test, which fails
// when an alarm is in the error log. LISTEN and LISTEN_H2 in conf are free loopback ports. Beside
// nginx.conf stand the project's includes, in authz/, and files, by name. What stands in events{} may
// be given too; else a crowd has room.
func StartNginx(t testing.TB, conf string, files map[string]string, events ...string) *NginxServer {
	t.Helper()
	return startNginxWith(t, "worker_processes 1;", conf, files, events...)
}

// startNginxWith is startNginx with main as what stands before http{}.
func startNginxWith(t testing.TB, main, conf string, files map[string]string, events ...string) *NginxServer {
	t.Helper()
	n := &NginxServer{Dir: t.TempDir(), Exited: make(chan struct{})}
	if strings.Join(events, "") == "" {
		events = []string{"worker_connections 4096;"}
	}
	for name, text := range ShippedIncludes(t) {
		n.Write(t, name, text)
	}
	for name, text := range files {
		n.Write(t, name, text)
	}

	// The sockets are handed over open, as nginx does for itself when its binary is upgraded: a port
	// that was only looked up could be somebody else's by now.
	n.Cmd = exec.Command("nginx", "-p", n.Dir, "-c", filepath.Join(n.Dir, "nginx.conf"), "-e", "stderr")
	n.Cmd.Env = append(os.Environ(), "NGINX=3;4;")
	for _, addr := range []*string{&n.Addr, &n.addrH2} {
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
		n.Cmd.ExtraFiles = append(n.Cmd.ExtraFiles, socket)
		*addr = l.Addr().String()
	}
	conf = strings.NewReplacer("LISTEN_H2", n.addrH2, "LISTEN", n.Addr).Replace(conf)
	n.Write(t, "nginx.conf", `
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
	AwaitLine(t, n.Cmd, n.Exited, "start worker process ")
	for _, socket := range n.Cmd.ExtraFiles {
		unblock(t, socket)
	}
	t.Cleanup(func() {
		n.Quit(t)
		n.CheckErrorLog(t)
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

// ShippedIncludes are the files that users add, as they are.
func ShippedIncludes(t testing.TB) map[string]string {
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

func (n *NginxServer) Write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(n.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (n *NginxServer) Read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(n.Dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Quit lets nginx answer what it has and returns when it is gone: its logs are complete then.
func (n *NginxServer) Quit(t testing.TB) {
	t.Helper()
	n.Cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-n.Exited:
	case <-time.After(30 * time.Second):
		t.Error("nginx did not end within 30 s of SIGQUIT")
		n.Cmd.Process.Kill()
	}
}

func (n *NginxServer) CheckErrorLog(t testing.TB) {
	t.Helper()
	for line := range strings.Lines(n.Read(t, "error.log")) {
		if containsAny(line, alarms) && !containsAny(line, n.MayLog) {
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
