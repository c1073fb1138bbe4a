package redis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// rediss:// speaks TLS, and to nobody whose certificate it cannot verify.
func TestRedissSpeaksTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	rig.SelfSigned(t, cert, key)
	port := rig.FreePort(t)
	r := rig.StartRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert)

	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	trusting := rig.OpenRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%s?skip_verify=true", port), 10*time.Second)
	if err := trusting.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	rig.Same(t, rig.KindOf(trusting, c), "admitted")
	rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%s", port), 10*time.Second), c), "network")
	rig.Same(t, rig.KindOf(rig.OpenRedisURL(t, fmt.Sprintf("redis://127.0.0.1:%s", port), 10*time.Second), c), "network")
	rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, r), c)), "4")
}

// Redis asks who we are, and proves who it is. What is wrong with either is told in words, and no
// request gets through.
func TestCertificatesAreShownAndVerified(t *testing.T) {
	ours, theirs := newCA(t, "our CA"), newCA(t, "their CA")
	client, stranger := ours.issue(t, "client"), theirs.issue(t, "stranger")
	port := rig.FreePort(t)
	r := rig.StartRedis(t, tlsServer(port, ours, ours.issue(t, "127.0.0.1"))...)
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	by := func(kind, text, host string, o redisstore.Options) {
		t.Helper()
		o.URL, o.Timeout = "rediss://"+host+":"+port, 10*time.Second
		s, err := redisstore.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		rig.Same(t, rig.KindOf(s, c), kind)
		if err := s.Load(context.Background()); !strings.Contains(fmt.Sprint(err), text) {
			t.Errorf("got  %v\nwant %s", err, text)
		}
	}
	const ip = "127.0.0.1"
	by("admitted", "<nil>", ip, redisstore.Options{CACert: ours.file, Cert: client.cert, Key: client.key})
	by("network", "tls: certificate required", ip, redisstore.Options{CACert: ours.file})
	by("network", "tls: unknown certificate authority", ip, redisstore.Options{CACert: ours.file, Cert: stranger.cert, Key: stranger.key})
	by("network", "certificate signed by unknown authority", ip, redisstore.Options{CACert: theirs.file, Cert: client.cert, Key: client.key})
	by("network", "certificate signed by unknown authority", ip, redisstore.Options{Cert: client.cert, Key: client.key}) // the system's list
	by("network", "not valid for any names, but wanted to match localhost", "localhost",
		redisstore.Options{CACert: ours.file, Cert: client.cert, Key: client.key})
	rig.Same(t, fmt.Sprint(rig.Left(t, rig.OpenRedis(t, r), c)), "99")

	opens := func(want, url string, o redisstore.Options) {
		t.Helper()
		o.URL, o.Timeout = url, time.Second
		if _, err := redisstore.Open(o); !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	opens("there are certificates for Redis, want a rediss:// URL", "redis://h", redisstore.Options{CACert: ours.file})
	opens("there is a certificate for Redis without its key, or", "rediss://h", redisstore.Options{Cert: client.cert})
	opens("the CA for Redis: "+client.key+" has no certificate in PEM", "rediss://h", redisstore.Options{CACert: client.key})
	opens("the CA for Redis: open /nowhere: no such file", "rediss://h", redisstore.Options{CACert: "/nowhere"})
	opens("the certificate for Redis: tls: private key does not match public key", "rediss://h", redisstore.Options{Cert: client.cert, Key: stranger.key})
}

// New certificates count from the next connection on.
func TestCertificatesAreReadForEachConnection(t *testing.T) {
	dir := t.TempDir()
	o := redisstore.Options{CACert: filepath.Join(dir, "ca"), Cert: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Timeout: 10 * time.Second}
	give := func(ca *testCA) certificate {
		t.Helper()
		client := ca.issue(t, "client")
		for to, from := range map[string]string{o.CACert: ca.file, o.Cert: client.cert, o.Key: client.key} {
			text, err := os.ReadFile(from)
			if err != nil {
				t.Fatal(err)
			}
			rig.ReplaceFile(t, to, string(text))
		}
		return ca.issue(t, "server", "127.0.0.1")
	}
	old, next := newCA(t, "old CA"), newCA(t, "next CA")
	port := rig.FreePort(t)
	o.URL = "rediss://127.0.0.1:" + port
	r := rig.StartRedis(t, tlsServer(port, old, give(old))...)
	s, err := redisstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	rig.Same(t, rig.KindOf(s, c), "admitted")
	server := give(next)
	if err := r.Do(context.Background(), "config", "set", "tls-ca-cert-file", next.file, "tls-cert-file", server.cert, "tls-key-file", server.key).Err(); err != nil {
		t.Fatal(err)
	}
	rig.Same(t, rig.KindOf(s, c), "admitted") // over the connection that there is
	r.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
	rig.Same(t, rig.KindOf(s, c), "admitted")
	os.Remove(o.Key)
	r.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
	rig.Same(t, fmt.Sprint(s.Ping(context.Background())), fmt.Sprintf("the certificate for Redis: open %s: no such file or directory", o.Key))
}
