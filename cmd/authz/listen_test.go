package main

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestASocketIsReplacedOnlyIfNobodyListens(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s")
	open := func() (net.Listener, string) {
		l, err := listen("unix:"+path, 0o600, slog.Default())
		if err != nil {
			return nil, strings.ReplaceAll(err.Error(), dir, "")
		}
		return l, ""
	}
	check := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	}
	whole := path
	path = filepath.Join(dir, "run", "s")
	_, err := open()
	check(err, "listen unix:/run/s: there is no folder /run, want one that exists")
	path = whole
	first, err := open()
	check(err, "")
	if info, err := os.Stat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v, want a socket of mode 0600", info.Mode(), err)
	}
	if got, want := address(first), "unix:"+path; got != want {
		t.Errorf("address %s, want %s", got, want)
	}
	_, err = open()
	check(err, "listen unix:/s: another process listens there")

	// a process that was killed leaves its socket
	first.(*patient).Listener.(*net.UnixListener).SetUnlinkOnClose(false)
	first.Close()
	second, err := open()
	check(err, "")
	second.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("after the end: %v, want no socket", err)
	}

	os.WriteFile(path, []byte("precious"), 0o600)
	_, err = open()
	check(err, "listen unix:/s: there is a file that is no socket, want a free path")
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file now has %q in it", text)
	}
}
