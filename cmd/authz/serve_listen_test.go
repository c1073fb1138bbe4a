package main

import (
	"log/slog"
	"net"
	"testing"

	"authz/internal/service"
	"authz/internal/testkit"
)

func TestAnAddressThatIsNoneIsNamed(t *testing.T) {
	check := func(want string, f serveCmd) {
		t.Helper()
		log := slog.New(slog.DiscardHandler)
		s, err := service.New(service.Options{Log: log, Limits: []string{testkit.WriteFile(t, "limits.toml", tokens)}, Prefix: "authz", MemoryBuckets: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_, err = f.listen(log)
		if len(f.Listen) == 0 {
			_, err = f.serveAdmin(s)
		}
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	check("--listen=foo: want host:port, such as 127.0.0.1:7429, or unix:/path", serveCmd{Listen: []string{"foo"}})
	check("--listen=: want host:port, such as 127.0.0.1:7429, or unix:/path", serveCmd{Listen: []string{""}})
	check("--listen=::1: want host:port, such as 127.0.0.1:7429, or unix:/path", serveCmd{Listen: []string{"::1"}})
	check("--listen=unix:: want unix:/path", serveCmd{Listen: []string{"unix:"}})
	check("--admin=unix:: want unix:/path", serveCmd{Admin: "unix:"})
	short := testkit.WriteFile(t, "token", "short\n")
	check("--admin-token-file="+short+": want one word of 16 characters at least, such as openssl rand -hex 16 writes",
		serveCmd{Admin: "127.0.0.1:0", AdminTokenFile: short})
	check("--admin-token-file="+short+"x: no such file or directory", serveCmd{Admin: "127.0.0.1:0", AdminTokenFile: short + "x"})
	check("--admin=foo: want host:port, such as 127.0.0.1:7429, or unix:/path", serveCmd{Admin: "foo"})
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	check("--listen="+addr+": listen tcp "+addr+": bind: address already in use", serveCmd{Listen: []string{addr}})
	check("--admin="+addr+": listen tcp "+addr+": bind: address already in use", serveCmd{Admin: addr})
}
