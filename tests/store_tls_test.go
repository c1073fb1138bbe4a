package tests

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authz/internal/store/redisstore"
)

// rediss:// speaks TLS, and to nobody whose certificate it cannot verify.
func TestRedissSpeaksTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key)
	port := freePort(t)
	r := startRedis(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert)

	c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	trusting := openRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%s?skip_verify=true", port), 10*time.Second)
	if err := trusting.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	same(t, kindOf(trusting, c), "admitted")
	same(t, kindOf(openRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%s", port), 10*time.Second), c), "network")
	same(t, kindOf(openRedisURL(t, fmt.Sprintf("redis://127.0.0.1:%s", port), 10*time.Second), c), "network")
	same(t, fmt.Sprint(left(t, openRedis(t, r), c)), "4")
}

// Redis asks who we are, and proves who it is. What is wrong with either is told in words, and no
// request gets through.
func TestCertificatesAreShownAndVerified(t *testing.T) {
	ours, theirs := newCA(t, "our CA"), newCA(t, "their CA")
	client, stranger := ours.issue(t, "client"), theirs.issue(t, "stranger")
	port := freePort(t)
	r := startRedis(t, tlsServer(port, ours, ours.issue(t, "127.0.0.1"))...)
	c := check(newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	by := func(kind, text, host string, o redisstore.Options) {
		t.Helper()
		o.URL, o.Timeout = "rediss://"+host+":"+port, 10*time.Second
		s, err := redisstore.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		same(t, kindOf(s, c), kind)
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
	same(t, fmt.Sprint(left(t, openRedis(t, r), c)), "99")

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
			replaceFile(t, to, string(text))
		}
		return ca.issue(t, "server", "127.0.0.1")
	}
	old, next := newCA(t, "old CA"), newCA(t, "next CA")
	port := freePort(t)
	o.URL = "rediss://127.0.0.1:" + port
	r := startRedis(t, tlsServer(port, old, give(old))...)
	s, err := redisstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := check(newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	same(t, kindOf(s, c), "admitted")
	server := give(next)
	if err := r.Do(context.Background(), "config", "set", "tls-ca-cert-file", next.file, "tls-cert-file", server.cert, "tls-key-file", server.key).Err(); err != nil {
		t.Fatal(err)
	}
	same(t, kindOf(s, c), "admitted") // over the connection that there is
	r.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
	same(t, kindOf(s, c), "admitted")
	os.Remove(o.Key)
	r.Do(context.Background(), "client", "kill", "type", "normal", "skipme", "yes")
	same(t, fmt.Sprint(s.Ping(context.Background())), fmt.Sprintf("the certificate for Redis: open %s: no such file or directory", o.Key))
}

func selfSigned(t *testing.T, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"},
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
