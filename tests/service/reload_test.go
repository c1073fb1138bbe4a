package service

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authz/tests/rig"
)

// A bucket of 10 with a token a day: reloads, good and bad, give nobody a fresh one.
func TestBucketsSurviveReloads(t *testing.T) {
	bucket := rig.Limit("a", "token_bucket", "1/d") + "burst = 10\n"
	file := rig.LimitsFile(t, bucket)
	a := rig.StartAuthz(t, "--limits="+file)
	ask := a.Checker()
	check := func(n, want int) {
		t.Helper()
		if got := ask.Admits(t, n, "GET /a"); got != want {
			t.Errorf("%d of %d admitted, want %d", got, n, want)
		}
	}
	metric := func(want string) {
		t.Helper()
		if got := a.Metrics(t, "authz_limits_last_reload_successful"); got != "authz_limits_last_reload_successful "+want+"\n" {
			t.Errorf("%swant %s", got, want)
		}
	}
	check(20, 10)
	a.Signal(t, syscall.SIGHUP)
	a.Await(t, `msg="limits reloaded" why=SIGHUP limits=1 changed=false`)
	check(10, 0)
	metric("1")
	rig.ReplaceFile(t, file, bucket+"rate = \"2/d\"\n")
	a.Await(t, `msg="limits not reloaded, the old ones stay" why="files changed"`)
	check(10, 0)
	metric("0")
	a.Signal(t, syscall.SIGHUP)
	a.Await(t, `msg="limits not reloaded, the old ones stay" why=SIGHUP`)
	rig.ReplaceFile(t, file, "") // truncated
	a.Await(t, "limits.toml: no rules, want at least one")
	check(10, 0)
	rig.ReplaceFile(t, file, bucket+rig.Limit("b", "sliding_window", "1/d"))
	a.Await(t, `msg="limits reloaded" why="files changed" limits=2 changed=true`)
	check(10, 0)
	metric("1")
	if got := ask.Admits(t, 3, "GET /b"); got != 1 {
		t.Errorf("the new limit admitted %d, want 1", got)
	}
}

func TestAnEditedLimitHoldsForThoseWhoAreKnown(t *testing.T) {
	r := rig.StartRedis(t)
	file := rig.LimitsFile(t, "[deny.nobody]\nmatch = { path = \"/.none\" }\n")
	a := rig.StartAuthz(t, "--limits="+file, "--redis="+r.URL(), "--redis-timeout=20s")
	ask, reloads := a.Checker(), 0
	check := func(algorithm, rate string, n, want int, wantLast string) {
		t.Helper()
		text := rig.Limit("a", algorithm, rate)
		if algorithm == "token_bucket" {
			text += "burst = " + strings.TrimSuffix(rate, "/366d") + "\n"
		}
		rig.ReplaceFile(t, file, text)
		reloads++
		a.Await(t, "changed=true", reloads)
		if got := ask.Admits(t, n, "GET /a"); got != want {
			t.Errorf("%s %s: %d of %d admitted, want %d", algorithm, rate, got, n, want)
		}
		if got := ask.Check(t, "GET /a", nil, "X-Authz-Limit", "RateLimit-Policy"); got != wantLast {
			t.Errorf("%s %s: then\ngot  %s\nwant %s", algorithm, rate, got, wantLast)
		}
	}
	last := func(status, quota string) string {
		return status + ` X-Authz-Limit=a RateLimit-Policy="a";q=` + quota + `;w=31622400`
	}
	check("fixed_window", "5/366d", 6, 5, last("429", "5"))
	check("fixed_window", "8/366d", 6, 3, last("429", "8"))
	check("fixed_window", "3/366d", 6, 0, last("429", "3"))
	check("sliding_window", "5/366d", 6, 5, last("429", "5"))
	check("sliding_window", "6/366d", 6, 1, last("429", "6")) // the limit is no part of the key
	check("sliding_window", "2/366d", 6, 0, last("429", "2"))
	// a bucket of 10 with 1 used; of 3 it is still 1 that is used
	check("token_bucket", "10/366d", 0, 0, last("200", "10"))
	check("token_bucket", "3/366d", 6, 2, last("429", "3"))
}

// Kubernetes mounts a folder of links through "..data", which it swaps for a new one.
func TestAConfigMapSwapIsAReload(t *testing.T) {
	dir := t.TempDir()
	version := func(name, text string) {
		t.Helper()
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "limits.toml"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(dir, "..data_tmp")
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link, filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", rig.Limit("a", "sliding_window", "1/d"))
	if err := os.Symlink("..data/limits.toml", filepath.Join(dir, "limits.toml")); err != nil {
		t.Fatal(err)
	}
	a := rig.StartAuthz(t, "--limits="+filepath.Join(dir, "limits.toml"))
	ask := a.Checker()
	check := func(n, want int) {
		t.Helper()
		if got := ask.Admits(t, n, "GET /a"); got != want {
			t.Errorf("%d of %d admitted, want %d", got, n, want)
		}
	}
	check(5, 1)
	version("..2", rig.Limit("a", "sliding_window", "3/d"))
	a.Await(t, "changed=true", 1)
	check(5, 2)
	os.RemoveAll(filepath.Join(dir, "..1"))
	version("..3", rig.Limit("a", "sliding_window", "4/d"))
	a.Await(t, "changed=true", 2)
	check(5, 1)
}

func TestAFolderIsOneSet(t *testing.T) {
	dir := t.TempDir()
	rig.ReplaceFile(t, filepath.Join(dir, "a.toml"), rig.Limit("a", "sliding_window", "1/d"))
	a := rig.StartAuthz(t, "--limits="+dir)
	ask := a.Checker()
	check := func(line string, want int) {
		t.Helper()
		if got := ask.Admits(t, 3, line); got != want {
			t.Errorf("%s: %d of 3 admitted, want %d", line, got, want)
		}
	}
	check("GET /b", 3)
	rig.ReplaceFile(t, filepath.Join(dir, "b.toml"), rig.Limit("b", "sliding_window", "2/d"))
	a.Await(t, "limits=2 changed=true")
	check("GET /b", 2)
	if err := os.Remove(filepath.Join(dir, "a.toml")); err != nil {
		t.Fatal(err)
	}
	a.Await(t, "limits=1 changed=true")
	check("GET /a", 3)
	// written in place, not renamed
	if err := os.WriteFile(filepath.Join(dir, "b.toml"), []byte(rig.Limit("c", "sliding_window", "1/d")), 0o644); err != nil {
		t.Fatal(err)
	}
	a.Await(t, "limits=1 changed=true", 2)
	check("GET /c", 1)
}

func TestABadFileAtTheStartEndsIt(t *testing.T) {
	file := rig.LimitsFile(t, rig.Limit("a", "sliding_window", "1/d")+"brust = 1\n")
	code, printed := rig.Authz(t, "serve", "--limits="+file, "--listen=127.0.0.1:0", "--admin=")
	if want := "authz: " + file + ":6: limit.a: unknown key brust"; code != 1 || !strings.HasPrefix(printed, want) {
		t.Errorf("exit %d: %s\nwant exit 1: %s…", code, printed, want)
	}
	if code, printed := rig.Authz(t, "serve", "--limits="+file+".gone"); code != 1 || !strings.Contains(printed, "limits.toml.gone") {
		t.Errorf("a file that is not there: exit %d: %s\nwant exit 1", code, printed)
	}
}
