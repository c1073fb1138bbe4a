package store

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestTheURLSaysWhereRedisIs(t *testing.T) {
	opens := func(want string, o RedisOptions) {
		t.Helper()
		o.Timeout = time.Second
		c, err := o.client()
		if err != nil {
			t.Errorf("%s: %v", o.URL, err)
			return
		}
		got := fmt.Sprintf("%s %s db %d user %q password %q tls %v", c.Network, c.Addr, c.DB, c.Username, c.Password, c.TLSConfig != nil)
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", o.URL, got, want)
		}
	}
	opens(`tcp localhost:6379 db 0 user "" password "" tls false`, RedisOptions{URL: "redis://localhost"})
	opens(`tcp [::1]:7000 db 3 user "u" password "p:w" tls false`, RedisOptions{URL: "redis://u:p%3Aw@[::1]:7000/3"})
	opens(`tcp r.example.com:6380 db 0 user "" password "" tls true`, RedisOptions{URL: "rediss://r.example.com:6380"})
	opens(`tcp h:6379 db 0 user "u" password "a,b" tls false`, RedisOptions{URL: "redis://u:a,b@h"})
	opens(`unix /a,b.sock db 0 user "" password "" tls false`, RedisOptions{URL: "unix:///a,b.sock"})
	opens(`unix /run/redis.sock db 2 user "u" password "p" tls false`, RedisOptions{URL: "unix://u:p@/run/redis.sock?db=2"})
	opens(`tcp h:1 db 0 user "me" password "mine" tls false`, RedisOptions{URL: "redis://u:p@h:1", User: "me", Password: "mine"})
}

func TestAURLThatCannotBeUsedIsToldWithoutItsPassword(t *testing.T) {
	refuses := func(want, url string) {
		t.Helper()
		_, err := OpenRedis(RedisOptions{URL: url, Timeout: time.Second})
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %s...", url, err, want)
		}
	}
	refuses("the Redis URL cannot be read, want redis://", "")
	refuses("the Redis URL cannot be read, want redis://", "localhost:6379")
	refuses("the Redis URL cannot be read, want redis://", "http://:secret@localhost")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret/x@localhost")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@localhost:port")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@localhost/zero")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@localhost?cats=3")
	refuses("the Redis URL names a cluster or a Sentinel", "redis://:secret@a:1,b:2")
	refuses("the Redis URL names a cluster or a Sentinel", "redis://:secret@a:1?cluster=true")
	refuses("the Redis URL names a cluster or a Sentinel", "redis://:secret@a:1?master=main")

	want := "the Redis timeout is 0s, want a time above 0"
	if _, err := OpenRedis(RedisOptions{URL: "redis://localhost"}); err == nil || err.Error() != want {
		t.Errorf("no timeout: %v, want %s", err, want)
	}
}

// A password that is changed in its file counts from the next connection on.
func TestThePasswordFileIsReadForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	o := RedisOptions{URL: "redis://u:old@localhost", PasswordFile: file, Timeout: time.Second}
	if _, err := o.client(); err == nil || !strings.HasPrefix(err.Error(), "the Redis password: open ") {
		t.Errorf("no file: %v, want an error that names it", err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	c, err := o.client()
	if err != nil {
		t.Fatal(err)
	}
	write("two\r\n")
	if user, password, err := c.CredentialsProviderContext(context.Background()); user != "u" || password != "two" || err != nil {
		t.Errorf("user %q, password %q, %v; want u, two", user, password, err)
	}
}

// Every one of these has a default that would send a request twice or make it wait.
func TestNothingIsRetriedWhateverTheURLSays(t *testing.T) {
	o := RedisOptions{URL: "redis://h?max_retries=3&dial_timeout=9s&pool_timeout=9s&read_timeout=9s&pool_size=7", Timeout: 80 * time.Millisecond}
	c, err := o.client()
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled, c.DialTimeout, c.PoolTimeout, c.ReadTimeout, c.PoolSize)
	if want := "-1 1 true 80ms 40ms 1.08s 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// C108: go-redis dials five times by default.
func TestADialThatFailsIsNotRepeated(t *testing.T) {
	c, err := RedisOptions{URL: "redis://h", Timeout: 10 * time.Second}.client()
	if err != nil {
		t.Fatal(err)
	}
	dials := 0
	c.Dialer = func(context.Context, string, string) (net.Conn, error) {
		dials++
		return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	}
	client := redis.NewClient(c)
	defer client.Close()
	if kind := Kind(client.Ping(context.Background()).Err()); kind != "network" || dials != 1 {
		t.Errorf("%s after %d dials, want network after 1", kind, dials)
	}
}
