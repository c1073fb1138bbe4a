package openresty

import (
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authz/tests/rig"
)

// TLS with a certificate that is verified, TCP and unix sockets, and timeouts of their own.
func TestThePackHasTLSAndEachTimeout(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	rig.SelfSigned(t, cert, key)
	tlsPort, tcpPort := rig.FreePort(t), rig.FreePort(t)
	r := rig.StartRedis(t, "--tls-port", tlsPort, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert, "--port", tcpPort)
	slow, err := net.Listen("tcp", "127.0.0.1:0") // connects, and never says a word
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()

	stores := fmt.Sprintf(`{
		tcp = {port = %[1]s, timeout = "10s"},
		unix = {socket = "%[3]s", connect_timeout = "9s", send_timeout = "10s", read_timeout = "11s"},
		tls = {port = %[2]s, tls = true, tls_name = "redis", timeout = "10s"},
		stranger = {port = %[2]s, tls = true, tls_name = "other.test", timeout = "10s"},
		nameless = {port = %[2]s, tls = true, timeout = "10s"},
		unverified = {port = %[2]s, tls = true, tls_verify = false, timeout = "10s"},
		plain = {port = %[2]s, timeout = "10s"},
		connecting = {port = %[5]d, connect_timeout = "100ms", send_timeout = "1m", read_timeout = "1m"},
		sending = {port = %[4]d, connect_timeout = "1m", send_timeout = "100ms", read_timeout = "1m"},
		reading = {port = %[4]d, connect_timeout = "1m", send_timeout = "1m", read_timeout = "100ms"},
		greeting = {port = %[4]d, tls = true, tls_verify = false, timeout = "100ms"},
	}`, tcpPort, tlsPort, r.Socket, slow.Addr().(*net.TCPAddr).Port, rig.FullPort(t))
	p := &rig.PackStores{NginxServer: rig.StartPackNginx(t, 2, fmt.Sprintf(`
		lua_ssl_trusted_certificate %s;
		lua_ssl_verify_depth 1;
		lua_shared_dict authz 1m;
		init_by_lua_block {
			require("driver").start(%s)
		}
		server {
			listen LISTEN;
			client_max_body_size 32m;
			client_body_buffer_size 32m;
			location ~ ^/redis/?(.*)$ {
				content_by_lua_block { local d = require "driver"; d.take(d.redis[ngx.var[1]]) }
			}
		}`, cert, stores), nil)}
	defer p.Client.CloseIdleConnections()
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 1000, 366*86400e6, 0), "u", 1)
	for _, row := range [][2]string{{"tcp", "admitted"}, {"unix", "admitted"}, {"tls", "admitted"}, {"stranger", "network"},
		{"nameless", "network"}, {"unverified", "admitted"}, {"stranger", "network"}, {"plain", "network"}, {"tls", "admitted"}} {
		rig.Same(t, row[0]+" "+rig.PackStore{PackStores: p, Path: "/redis/" + row[0]}.Kind(c), row[0]+" "+row[1])
	}
	large := rig.Check(c.Limit, strings.Repeat("u", 16<<20), 1) // no buffer takes it
	for _, name := range []string{"connecting", "sending", "reading", "greeting"} {
		begun, what := time.Now(), c
		if name == "sending" {
			what = large
		}
		rig.Same(t, name+" "+rig.PackStore{PackStores: p, Path: "/redis/" + name}.Kind(what), name+" timeout")
		if took := time.Since(begun); took < 100*time.Millisecond || took > 30*time.Second {
			t.Errorf("%s took %v, want 100 ms and no minute", name, took)
		}
	}
	rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, r), c)), "995")

	r.Signal(t, syscall.SIGKILL)
	rig.Same(t, rig.PackStore{PackStores: p, Path: "/redis/tls"}.Kind(c), "network")
}
