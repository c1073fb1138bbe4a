package service

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authz/tests/rig"
)

// asOld is the URL of a Redis that says that it is of another version, and knows one command less.
func asOld(t *testing.T, r *rig.RedisServer, version, unknown string) string {
	t.Helper()
	carry := func(to, from net.Conn, old, new string) {
		buf := make([]byte, 1<<20)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			text := buf[:n]
			if old != "" {
				text = bytes.ReplaceAll(text, []byte(old), []byte(new))
			}
			to.Write(text)
		}
	}
	return rig.InFrontOf(t, r, func(client, server net.Conn) {
		go carry(client, server, "7.0.15", version)
		carry(server, client, unknown, strings.Repeat("x", len(unknown)))
	})
}

// C120: who can see at its start that Redis is too old does not begin to serve.
func TestAServiceDoesNotStartOnARedisThatIsTooOld(t *testing.T) {
	r := rig.StartRedis(t)
	start := func(url string, want string) {
		t.Helper()
		a := rig.LaunchAuthz(t, "serve", "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+url, "--redis-timeout=20s", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0")
		if code := a.Wait(t); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		rig.Same(t, a.Logged(), want+"\n")
	}
	for version, unknown := range map[string]string{"6.0.16": "", "4.0.14": "hello"} { // who does not know HELLO is asked by INFO
		url := asOld(t, r, version, unknown)
		socket := strings.TrimPrefix(url, "unix://")
		start(url, "authz: "+socket+": Redis "+version+" is too old for the scripts, want 6.2 or later")
	}
	// an account that may not load scripts still sees it
	r.MustDo(t, "acl", "setuser", "few", "on", ">pass", "~*", "+ping")
	socket := strings.TrimPrefix(asOld(t, r, "6.0.16", ""), "unix://")
	start("unix://few:pass@"+socket, "authz: "+socket+": Redis 6.0.16 is too old for the scripts, want 6.2 or later")

	node := rig.StartPuppet(t, rig.Admits)
	node.Inform("redis_version:6.0.16\r\n")
	start("redis://127.0.0.1:"+node.Port+"?cluster=true", "authz: 127.0.0.1:"+node.Port+": Redis 6.0.16 is too old for the scripts, want 6.2 or later")

	// What cannot be seen keeps nobody from starting.
	untold := rig.StartRedis(t, "--rename-command", "HELLO", "", "--rename-command", "INFO", "")
	a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis="+untold.URL(), "--redis-timeout=20s")
	rig.Same(t, a.Checker().Check(t, "GET /deny", nil), "200")
	if strings.Contains(a.Logged(), "WARN") {
		t.Error("a warning, want none")
	}
}

// Who serves already goes on, and says it: when Redis comes for the first time, and when it comes back as
// another.
func TestARedisThatIsTooOldLaterIsAWarning(t *testing.T) {
	old := strings.TrimPrefix(asOld(t, rig.StartRedis(t), "6.0.16", ""), "unix://")
	place := filepath.Join(rig.SocketDir(t), "redis.sock")
	link := func(to string) {
		t.Helper()
		os.Remove(place)
		if err := os.Symlink(to, place); err != nil {
			t.Fatal(err)
		}
	}
	start := func() (*rig.AuthzServer, *rig.Checker) {
		t.Helper()
		a := rig.StartAuthz(t, "--limits="+rig.LimitsFile(t, rig.ThreeAnswers), "--redis=unix://"+place, "--redis-timeout=20s")
		return a, a.Checker()
	}
	warned := func(a *rig.AuthzServer, ask *rig.Checker) {
		t.Helper()
		a.Await(t, "level=WARN msg=\"Redis is not as it should be, see authz doctor\" server="+place+
			" what=server why=\"Redis 6.0.16 is too old for the scripts, want 6.2 or later\"")
		rig.Same(t, ask.Check(t, "GET /deny", nil), "200")
	}
	a, ask := start() // with nothing there
	link(old)
	warned(a, ask)

	young := rig.StartRedis(t)
	link(young.Socket)
	a, ask = start()
	rig.Same(t, ask.Check(t, "GET /deny", nil), "200")
	young.Kill(t)
	for range 3 {
		rig.Same(t, ask.Check(t, "GET /deny", nil), "503")
	}
	a.Await(t, "the breaker is open")
	link(old)
	warned(a, ask)
}
