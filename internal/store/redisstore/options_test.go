package redisstore

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
	opens := func(want string, o Options) {
		t.Helper()
		o.Timeout = time.Second
		p, err := o.site()
		if err != nil {
			t.Errorf("%s: %v", o.URL, err)
			return
		}
		c := p.client
		got := fmt.Sprintf("%s %s db %d user %q password %q tls %v", c.Network, c.Addr, c.DB, c.Username, c.Password, c.TLSConfig != nil)
		if p.cluster {
			got += fmt.Sprint(" cluster ", p.addrs)
		}
		if p.master != "" {
			got += fmt.Sprintf(" master %q of %v, user %q password %q", p.master, p.addrs, p.sentinelUser, p.sentinelPassword)
		}
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", o.URL, got, want)
		}
	}
	opens(`tcp localhost:6379 db 0 user "" password "" tls false`, Options{URL: "redis://localhost"})
	opens(`tcp [::1]:7000 db 3 user "u" password "p:w" tls false`, Options{URL: "redis://u:p%3Aw@[::1]:7000/3"})
	opens(`tcp r.example.com:6380 db 0 user "" password "" tls true`, Options{URL: "rediss://r.example.com:6380"})
	opens(`tcp h:6379 db 0 user "u" password "a,b" tls false`, Options{URL: "redis://u:a,b@h"})
	opens(`unix /a,b.sock db 0 user "" password "" tls false`, Options{URL: "unix:///a,b.sock"})
	opens(`unix /run/redis.sock db 2 user "u" password "p" tls false`, Options{URL: "unix://u:p@/run/redis.sock?db=2"})
	opens(`tcp a:1 db 0 user "u" password "p,@" tls false cluster [a:1 b:6379 [::1]:7000]`, Options{URL: "redis://u:p,%40@a:1,b,[::1]:7000"})
	opens(`tcp a:6379 db 0 user "" password "" tls true cluster [a:6379]`, Options{URL: "rediss://a?cluster=true&pool_size=5"})
	opens(`tcp a:1 db 0 user "" password "" tls false`, Options{URL: "redis://a:1?cluster=false"})
	opens(`tcp a:6379 db 2 user "u" password "p" tls false master "main" of [a:26379 b:1], user "" password ""`,
		Options{URL: "redis://u:p@a,b:1/2?master=main"})
	opens(`tcp a:6379 db 0 user "" password "" tls true master "main" of [a:26379], user "s" password "q@"`,
		Options{URL: "rediss://a?master=main&sentinel_username=s&sentinel_password=q%40&pool_size=5"})
	opens(`tcp h:1 db 0 user "me" password "mine" tls false`, Options{URL: "redis://u:p@h:1", User: "me", Password: "mine"})
}

func TestAURLThatCannotBeUsedIsToldWithoutItsPassword(t *testing.T) {
	refuses := func(want, url string) {
		t.Helper()
		_, err := Open(Options{URL: url, Timeout: time.Second})
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
	const unknown = "the Redis URL has a parameter that is not known: "
	refuses(unknown+`"cats", want cluster=true, master=NAME `, "redis://:secret@localhost?cats=3")
	refuses(unknown+`"cats, dogs", want `, "redis://localhost/0?pool_size=5&dogs=secret&cats=3")
	refuses(unknown+`"sentinel_username", want cluster=true, master=NAME (with which sentinel_username `, "redis://h?sentinel_username=secret")
	refuses("the Redis URL cannot be read, want redis://", "redis://:a?secret=3@localhost") // which is the password
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@a:1,b:port")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@a:1,,b:2")
	refuses(unknown+`"sentinel_password", want `, "redis://:secret@a,b?sentinel_password=secret")
	refuses("the Redis URL cannot be read, want redis://", "redis://:secret@a,b?x=%zz")
	refuses("the Redis URL says neither cluster=true nor cluster=false", "redis://:secret@a:1?cluster=secret")
	refuses("the Redis URL has cluster and master, want one of them", "redis://:secret@a:1?cluster=true&master=main")
	refuses("the Redis URL names several hosts and cluster=false", "redis://:secret@a:1,b:2?cluster=false")
	refuses("the Redis URL has an empty master, want the name", "redis://:secret@a:1?master=")
	refuses("the Redis URL names database 1, want none: a cluster has but one", "redis://:secret@a:1,b:2/1")
	refuses("the Redis URL names a unix socket, which is one server", "unix://u:secret@/a.sock?cluster=true")
	refuses("the Redis URL names a unix socket, which is one server", "unix://u:secret@/a.sock?master=main")

	want := "the Redis timeout is 0s, want a time above 0"
	if _, err := Open(Options{URL: "redis://localhost"}); err == nil || err.Error() != want {
		t.Errorf("no timeout: %v, want %s", err, want)
	}
}

// A password that is changed in its file counts from the next connection on.
func TestThePasswordFileIsReadForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	o := Options{URL: "redis://u:old@localhost", PasswordFile: file, Timeout: time.Second}
	if _, err := o.site(); err == nil || !strings.HasPrefix(err.Error(), "the Redis password: open ") {
		t.Errorf("no file: %v, want an error that names it", err)
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	p, err := o.site()
	if err != nil {
		t.Fatal(err)
	}
	write("two\r\n")
	if user, password, err := p.at("").CredentialsProviderContext(context.Background()); user != "u" || password != "two" || err != nil {
		t.Errorf("user %q, password %q, %v; want u, two", user, password, err)
	}
}

// Every one of these has a default that would send a request twice or make it wait.
func TestNothingIsRetriedWhateverTheURLSays(t *testing.T) {
	o := Options{URL: "redis://h?max_retries=3&dial_timeout=9s&pool_timeout=9s&read_timeout=9s&pool_size=7", Timeout: 80 * time.Millisecond}
	p, err := o.site()
	if err != nil {
		t.Fatal(err)
	}
	c := p.at("")
	got := fmt.Sprint(c.MaxRetries, c.DialerRetries, c.ContextTimeoutEnabled, c.DialTimeout, c.PoolTimeout, c.ReadTimeout, c.PoolSize)
	if want := "-1 1 true 80ms 40ms 1.08s 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// C108: go-redis dials five times by default.
func TestADialThatFailsIsNotRepeated(t *testing.T) {
	p, err := Options{URL: "redis://h", Timeout: 10 * time.Second}.site()
	if err != nil {
		t.Fatal(err)
	}
	c := p.at("")
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
