package tests

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authz/internal/store/redisstore"
)

// A password that changes in Redis and in its file costs no request anything: every new connection has
// the new one, to whatever the URL names.
func TestANewPasswordIsUsedFromTheNextConnectionOn(t *testing.T) {
	ctx := context.Background()
	c := check(newLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	changes := func(r *redisServer, url string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "password")
		set := func(password string) {
			t.Helper()
			if err := r.ConfigSet(ctx, "requirepass", password).Err(); err != nil {
				t.Fatal(err)
			}
		}
		write := func(password string) {
			t.Helper()
			if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		set("one")
		write("one")
		s, err := redisstore.Open(redisstore.Options{URL: url, PasswordFile: file, Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		same(t, url+" "+kindOf(s, c), url+" admitted")
		set("two")
		r.ClientKillByFilter(ctx, "type", "normal", "skipme", "yes")
		same(t, url+" "+kindOf(s, c), url+" noauth")
		write("two")
		same(t, url+" "+kindOf(s, c), url+" admitted")
	}
	r, port := startRedisAt(t)
	changes(r, "redis://127.0.0.1:"+port)
	r, port = startRedisAt(t)
	changes(r, sentinelURL(startSentinels(t, 1, port), ""))
	r, port = startClusterOfOne(t)
	changes(r, "redis://127.0.0.1:"+port+"?cluster=true")
}

// A Redis that wants a password refuses a long script in other words than a short one, and hangs up.
func TestAPasswordThatIsLackingIsToldAtTheStart(t *testing.T) {
	r := startRedis(t)
	r.do(t, "config", "set", "requirepass", "s3cr3t")
	const why = "load script sliding_counter: NOAUTH Authentication required."
	code, text := authz(t, "scripts", "load", "--redis="+r.url())
	same(t, fmt.Sprint(code, " ", text), "1 authz: "+why+"\n")
	a := startAuthz(t, "--limits=../limits/examples/quickstart.toml", "--redis="+r.url(), "--redis-timeout=20s")
	a.await(t, `msg="Redis is not ready, on_error decides until it is, see authz doctor" redis=`+r.url()+` kind=noauth error="`+why+`"`)
}
