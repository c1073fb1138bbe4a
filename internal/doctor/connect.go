package doctor

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"authz/internal/store/redisstore"
)

// whyNot says why there is no connection: an error, or what the other side speaks instead.
func (d *Doctor) whyNot(err error) string {
	scheme, _, _ := strings.Cut(d.At.URL, "://")
	silent := redisstore.Kind(err) == "timeout"
	for _, addr := range d.addresses() {
		switch {
		case scheme == "redis" && !silent && speaksTLS(addr): // who speaks TLS does not wait after a HELLO
			return "the server speaks TLS, want rediss://"
		case scheme == "rediss" && speaksRedis(addr):
			return "the server speaks no TLS, want redis://"
		}
	}
	text := InShort(err)
	switch {
	case silent && d.At.Timeout < FirstPatience:
		return fmt.Sprintf("no answer within --redis-timeout=%v, nor within %v: %s", d.At.Timeout, FirstPatience, text)
	case silent:
		return fmt.Sprintf("no answer within --redis-timeout=%v: %s", d.At.Timeout, text)
	}
	if never := NeverWorks(err); never != "" {
		return never + ": " + text
	}
	return text
}

// NeverWorks says why the Redis that has answered with err can never serve, "" if it may yet.
func NeverWorks(err error) string {
	switch text := err.Error(); {
	case strings.Contains(text, "cluster support disabled"):
		return "the server is no node of a cluster, want one address and a URL without cluster"
	case errors.Is(err, redisstore.ErrNoMaster):
		return "the URL's master is not known"
	case noSentinel.MatchString(text):
		return "the server is no Sentinel, want a URL without master"
	case isSentinel.MatchString(text):
		return "the server is a Sentinel, want ?master=NAME in the URL"
	case strings.Contains(text, "DB index is out of range"):
		return "the server has no such database as the URL names"
	}
	return ""
}

// isSentinel is what a Sentinel says when it is asked for the slots of a cluster, or to load a script; noSentinel what a
// Redis says when it is taken for a Sentinel.
var (
	isSentinel = regexp.MustCompile("(?i)unknown command [`'](cluster|script)\\b")
	noSentinel = regexp.MustCompile("(?i)unknown command [`']sentinel\\b")
)

// emptyFile names a file that ought to have a password, and has none.
func (d *Doctor) emptyFile() string {
	for _, file := range []string{d.At.PasswordFile, d.At.SentinelPasswordFile} {
		if text, err := os.ReadFile(file); err == nil && len(strings.TrimRight(string(text), "\r\n")) == 0 {
			return ", and " + file + " is empty"
		}
	}
	return ""
}

// addresses are the hosts of the URL with their ports.
func (d *Doctor) addresses() (addrs []string) {
	u, err := url.Parse(d.At.URL)
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
