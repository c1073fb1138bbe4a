package redis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// testCA is an authority of this test's own.
type testCA struct {
	file string // its certificate in PEM
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificate is files in PEM.
type certificate struct{ cert, key string }

func newCA(t testing.TB, name string) *testCA {
	t.Helper()
	ca := &testCA{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &ca.key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	if ca.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	ca.file = writePEM(t, t.TempDir(), "ca.pem", "CERTIFICATE", der)
	return ca
}

// issue signs a certificate for names and addresses.
func (ca *testCA) issue(t testing.TB, names ...string) certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: names[0]},
		NotAfter: time.Now().Add(time.Hour)}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return certificate{writePEM(t, dir, "cert.pem", "CERTIFICATE", der), writePEM(t, dir, "key.pem", "PRIVATE KEY", private)}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func writePEM(t testing.TB, dir, name, what string, der []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tlsServer is what a redis-server has to be told, to speak TLS and nothing else, and to ask who wants to.
func tlsServer(port string, ca *testCA, own certificate) []string {
	return []string{"--bind", "127.0.0.1", "--tls-port", port, "--tls-cert-file", own.cert, "--tls-key-file", own.key,
		"--tls-ca-cert-file", ca.file, "--tls-replication", "yes", "--tls-cluster", "yes"}
}
