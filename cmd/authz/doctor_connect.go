package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"
)

// whyNot says why there is no connection: an error, or what the other side speaks instead.
func (d *doctor) whyNot(err error) string {
	scheme, _, _ := strings.Cut(d.Redis, "://")
	for _, addr := range d.addresses() {
		switch {
		case scheme == "redis" && speaksTLS(addr):
			return "the server speaks TLS, want rediss://"
		case scheme == "rediss" && speaksRedis(addr):
			return "the server speaks no TLS, want redis://"
		}
	}
	if strings.Contains(err.Error(), "cluster support disabled") {
		return "the server is no node of a cluster, want a URL without cluster: " + inShort(err)
	}
	return inShort(err)
}

// addresses are the hosts of the URL with their ports.
func (d *doctor) addresses() (addrs []string) {
	u, err := url.Parse(d.Redis)
	if err != nil || u.Host == "" {
		return nil
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "6379")
		}
		addrs = append(addrs, host)
	}
	return addrs
}

// speaksTLS asks as a client would that trusts everybody. It sends nothing else.
func speaksTLS(addr string) bool {
	dialer := &net.Dialer{Timeout: time.Second}
	c, err := tls.DialWithDialer(dialer, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
	if err == nil {
		c.Close()
		return true
	}
	var alert tls.AlertError
	return errors.As(err, &alert) // such as that it wants a certificate
}

func speaksRedis(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Second))
	fmt.Fprint(c, "PING\r\n")
	var first [1]byte
	_, err = c.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}
