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
	"testing"
	"time"
)

// rediss:// speaks TLS, and to nobody whose certificate it cannot verify.
func TestRedissSpeaksTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	selfSigned(t, cert, key)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	r := startRedis(t, "--tls-port", fmt.Sprint(port), "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-auth-clients", "no", "--tls-ca-cert-file", cert)

	c := check(newLimit(t, "api", "fixed_window", 5, 366*86400e6, 0), "u", 1)
	trusting := openRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%d?skip_verify=true", port), 10*time.Second)
	if err := trusting.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	same(t, kindOf(trusting, c), "admitted")
	same(t, kindOf(openRedisURL(t, fmt.Sprintf("rediss://127.0.0.1:%d", port), 10*time.Second), c), "network")
	same(t, kindOf(openRedisURL(t, fmt.Sprintf("redis://127.0.0.1:%d", port), 10*time.Second), c), "network")
	same(t, fmt.Sprint(left(t, openRedis(t, r), c)), "4")
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
