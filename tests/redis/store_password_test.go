package redis

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"authz/internal/store/redisstore"
	"authz/tests/rig"
)

// A password that changes in Redis and in its file costs no request anything: every new connection has
// the new one, to whatever the URL names.
func TestANewPasswordIsUsedFromTheNextConnectionOn(t *testing.T) {
	ctx := context.Background()
	c := rig.Check(rig.NewLimit(t, "api", "fixed_window", 100, 366*86400e6, 0), "u", 1)
	changes := func(r *rig.RedisServer, url string) {
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
		rig.Same(t, url+" "+rig.KindOf(s, c), url+" admitted")
		set("two")
		r.ClientKillByFilter(ctx, "type", "normal", "skipme", "yes")
		rig.Same(t, url+" "+rig.KindOf(s, c), url+" noauth")
		write("two")
		rig.Same(t, url+" "+rig.KindOf(s, c), url+" admitted")
	}
	r, port := startRedisAt(t)
	changes(r, "redis://127.0.0.1:"+port)
	r, port = startRedisAt(t)
	changes(r, sentinelURL(rig.StartSentinels(t, 1, port), ""))
	r, port = startClusterOfOne(t)
	changes(r, "redis://127.0.0.1:"+port+"?cluster=true")
}

// A Redis that wants a password refuses a long script in other words than a short one, and hangs up.
func TestAPasswordThatIsLackingIsToldAtTheStart(t *testing.T) {
	r := rig.StartRedis(t)
	r.MustDo(t, "config", "set", "requirepass", "s3cr3t")
	const why = "load script sliding_counter: NOAUTH Authentication required."
	code, text := rig.Authz(t, "scripts", "load", "--redis="+r.URL())
	rig.Same(t, fmt.Sprint(code, " ", text), "1 authz: "+why+"\n")
	a := rig.StartAuthz(t, "--limits=../limits/examples/quickstart.toml", "--redis="+r.URL(), "--redis-timeout=20s")
	a.Await(t, `msg="Redis is not ready, on_error decides until it is, see authz doctor" redis=`+r.URL()+` kind=noauth error="`+why+`"`)
}
