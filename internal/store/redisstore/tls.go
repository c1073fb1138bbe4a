package redisstore

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// A tlsDialer connects with TLS. It reads its files for each connection.
type tlsDialer struct {
	ca, cert, key string      // files in PEM, "" for none
	url           *tls.Config // what the URL says
	host          string      // of the URL
}

// dialer is what connects to servers: nil without TLS, which is go-redis's own.
func (o Options) dialer(c *redis.Options) (func(context.Context, string, string) (net.Conn, error), error) {
	switch {
	case c.TLSConfig == nil && o.CACert+o.Cert+o.Key != "":
		return nil, errors.New("there are certificates for Redis, want a rediss:// URL to use them with")
	case c.TLSConfig == nil:
		return nil, nil
	case (o.Cert == "") != (o.Key == ""):
		return nil, errors.New("there is a certificate for Redis without its key, or a key without its certificate, want both")
	}
	host, _, _ := net.SplitHostPort(c.Addr)
	d := &tlsDialer{ca: o.CACert, cert: o.Cert, key: o.Key, url: c.TLSConfig, host: host}
	if _, err := d.config(c.Addr); err != nil {
		return nil, err
	}
	return d.dial, nil
}

func (d *tlsDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	config, err := d.config(addr)
	if err != nil {
		return nil, err
	}
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return tlsConn{conn.(*tls.Conn)}, nil
}

// A tlsConn is a connection whose end is noticed, and told as it was meant.
type tlsConn struct{ *tls.Conn }

// Write tells what the server had to say before it hung up: in TLS 1.3 it looks at our certificate when
// we may already write.
func (c tlsConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		c.SetReadDeadline(time.Now().Add(time.Millisecond)) // it is here already, if ever
		var said *net.OpError
		if _, last := c.Read(make([]byte, 1)); errors.As(last, &said) && said.Op == "remote error" {
			return n, last
		}
	}
	return n, err
}

// SyscallConn lets go-redis find out before it sends a request that a connection is dead, as it does
// without TLS. go-redis warns of that: it takes a record of TLS that waits to be read for a push message,
// reads on without a deadline, and may wait forever. It does so only with RESP 3: here is RESP 2, where
// it closes a connection on which anything waits to be read.
func (c tlsConn) SyscallConn() (syscall.RawConn, error) {
	return c.NetConn().(syscall.Conn).SyscallConn()
}

func (d *tlsDialer) config(addr string) (*tls.Config, error) {
	c := d.url.Clone()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	// A cluster and Sentinels name servers by their addresses, which are in few certificates. The name
	// in the URL then is the one that the server has to prove.
	c.ServerName = host
	if net.ParseIP(host) != nil && net.ParseIP(d.host) == nil {
		c.ServerName = d.host
	}
	if d.ca != "" {
		text, err := os.ReadFile(d.ca)
		if err != nil {
			return nil, fmt.Errorf("the CA for Redis: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("the CA for Redis: %s has no certificate in PEM", d.ca)
		}
	}
	if d.cert != "" {
		pair, err := tls.LoadX509KeyPair(d.cert, d.key)
		if err != nil {
			return nil, fmt.Errorf("the certificate for Redis: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
