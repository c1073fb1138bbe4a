package service

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"authz/redisscripts"
	"authz/tests/rig"
)

// nextVersion is authz as a later release of the same contract would be: with a script of another SHA.
func nextVersion(t *testing.T) (path, takeSHA string) {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]string{}
	write := func(name, text string) {
		t.Helper()
		from, err := filepath.Abs("../redisscripts/v1/" + name)
		if err != nil {
			t.Fatal(err)
		}
		overlay[from] = filepath.Join(dir, name)
		if err := os.WriteFile(overlay[from], []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	take := redisscripts.Take().Text + "-- of the next version\n"
	takeSHA = fmt.Sprintf("%x", sha1.Sum([]byte(take)))
	sums, err := os.ReadFile("../redisscripts/v1/SHA1SUMS")
	if err != nil {
		t.Fatal(err)
	}
	write("take.lua", take)
	write("SHA1SUMS", strings.Replace(string(sums), redisscripts.Take().SHA, takeSHA, 1))
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "authz-next")
	build := exec.Command("go", "build", "-overlay", file, "-o", path, "authz/cmd/authz")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path, takeSHA
}

// Two versions beside each other count as one, and so does the old one alone when the new one is taken back.
func TestAnUpgradeAndARollbackLoseNoCount(t *testing.T) {
	next, takeSHA := nextVersion(t)
	r := rig.StartRedis(t)
	args := []string{"--redis=" + r.URL(), "--redis-timeout=20s", "--refusals-max=0", "--limits=" + rig.LimitsFile(t, `
		[limit.hundred]
		key = ["ip"]
		algorithm = "fixed_window"
		rate = "100/366d"`)}
	before := rig.StartAuthz(t, args...)
	admitted := func(a *rig.AuthzServer, n int) (count int) {
		t.Helper()
		ask := a.Checker()
		for range n {
			if ask.Check(t, "GET /", nil) == "200" {
				count++
			}
		}
		return count
	}
	rig.Same(t, fmt.Sprint(admitted(before, 30)), "30")

	after := rig.LaunchBinary(t, next, append([]string{"serve", "--listen=127.0.0.1:0", "--admin=127.0.0.1:0"}, args...)...)
	after.Await(t, "msg=serving ")
	after.Addr = regexp.MustCompile(`for=checks addr=(\S+)`).FindStringSubmatch(after.Logged())[1]
	rig.Same(t, fmt.Sprint(admitted(after, 20)), "20")
	if known := r.ScriptExists(context.Background(), takeSHA, redisscripts.Take().SHA).Val(); fmt.Sprint(known) != "[true true]" {
		t.Errorf("Redis knows take of both versions: %v", known)
	}
	got := rig.AtOnce(2, 20, func(i int) string { return fmt.Sprint(admitted([]*rig.AuthzServer{before, after}[i], 1)) })
	rig.Same(t, fmt.Sprint(got), "map[1:40]")

	after.Signal(t, syscall.SIGTERM)
	<-after.Exited
	rig.Same(t, fmt.Sprint(admitted(before, 30)), "10")
}
