package redis

import (
	"fmt"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// A cluster and Sentinels, too, speak TLS and ask for a certificate. Both name servers by their
// addresses; with a name in the URL, the servers' certificates have to be for that name.
func TestTLSReachesEveryServer(t *testing.T) {
	ca := newCA(t, "our CA")
	client := ca.issue(t, "client")
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	by := func(want, url string, o redisstore.Options) {
		t.Helper()
		o.URL, o.CACert, o.Timeout = url, ca.file, 10*time.Second
		s, err := redisstore.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rig.Same(t, url+" "+rig.KindOf(s, c), url+" "+want)
	}
	for _, name := range []string{"localhost", "127.0.0.1"} {
		server := ca.issue(t, name)
		port := rig.FreePort(t)
		r, _ := startClusterOfOne(t, tlsServer(port, ca, server)...)
		wrong := map[string]string{"localhost": "127.0.0.1", "127.0.0.1": "localhost"}[name]
		with := redisstore.Options{Cert: client.cert, Key: client.key}
		by("admitted", "rediss://"+name+":"+port+"?cluster=true", with)
		by("network", "rediss://"+wrong+":"+port+"?cluster=true", with)
		by("network", "rediss://"+name+":"+port+"?cluster=true", redisstore.Options{})
		rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, r), c)), "99")

		port = rig.FreePort(t)
		r = rig.StartRedis(t, tlsServer(port, ca, server)...)
		s := rig.StartSentinels(t, 1, port, "port 0", "tls-port HERE", "tls-replication yes", "tls-ca-cert-file "+ca.file,
			"tls-cert-file "+server.cert, "tls-key-file "+server.key)[0]
		at := name + s.Addr[len("127.0.0.1"):] + "?master=main"
		by("admitted", "rediss://"+at, with)
		by("network", "rediss://"+at, redisstore.Options{})
		rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, r), c)), "99")
	}
}
