package redis

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"authz/redisscripts"
	"authz/tests/rig"
)

func TestTheComposedScriptsAreCurrent(t *testing.T) {
	dir := t.TempDir()
	rig.Command(t, "../redisscripts", "go", "run", "compose.go", dir)
	committed, err := os.ReadDir("../redisscripts/v1")
	if err != nil {
		t.Fatal(err)
	}
	composed, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(composed), fmt.Sprint(committed); got != want {
		t.Errorf("go generate writes %s, v1 has %s", got, want)
	}
	for _, file := range composed {
		got, err := os.ReadFile(filepath.Join(dir, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if want, _ := os.ReadFile(filepath.Join("../redisscripts/v1", file.Name())); !bytes.Equal(got, want) {
			t.Errorf("redisscripts/v1/%s is not what go generate makes of redisscripts/src: run it and commit", file.Name())
		}
	}
}

func TestTheSumsAreThoseOfSha1sum(t *testing.T) {
	var want strings.Builder
	for name := range strings.FieldsSeq("fixed_window leaky_bucket sliding_counter sliding_window take token_bucket") {
		fmt.Fprintf(&want, "%s.lua: OK\n", name)
	}
	if got := rig.Command(t, "../redisscripts/v1", "sha1sum", "--strict", "--check", "SHA1SUMS"); got != want.String() {
		t.Errorf("sha1sum says\n%swant\n%s", got, want.String())
	}
	sums, err := os.ReadFile("../redisscripts/v1/SHA1SUMS")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range redisscripts.All() {
		if line := s.SHA + "  " + s.Name + ".lua\n"; !strings.Contains(string(sums), line) {
			t.Errorf("SHA1SUMS has no line %q", line)
		}
	}
}

// TestTheReadmesLinesAnswerAsPrinted types each redis-cli line of the scripts' README, in order, and
// compares what comes out with what is printed there.
func TestTheReadmesLinesAnswerAsPrinted(t *testing.T) {
	s := rig.StartScripts(t)
	readme, err := os.ReadFile("../redisscripts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for block := range strings.SplitSeq(string(readme), "```") {
		text, isConsole := strings.CutPrefix(block, "console\n")
		if !isConsole {
			continue
		}
		for _, step := range strings.Split("\n"+text, "\n$ redis-cli ")[1:] {
			line, want, _ := strings.Cut(step+"\n", "\n")
			got := rig.Command(t, "..", "sh", "-c", "redis-cli --no-raw -s '"+s.Socket+"' "+line)
			if strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("redis-cli %s\nprints\n%swant\n%s", line, got, want)
			}
			for _, script := range redisscripts.All() {
				if strings.Contains(line, "redisscripts/v1/"+script.Name+".lua ") {
					ran[script.Name]++
				}
			}
		}
	}
	for _, script := range redisscripts.All() {
		if ran[script.Name] == 0 {
			t.Errorf("README.md has no redis-cli line for %s", script.Name)
		}
	}
}

func TestTheReadmesAccountNeedsNoOtherCommandAndNoOtherKey(t *testing.T) {
	s := rig.StartScripts(t)
	readme, err := os.ReadFile("../redisscripts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "\n$ redis-cli ACL SETUSER limiter ")
	line, _, found := strings.Cut(rest, "\n")
	if !found {
		t.Fatal("README.md has no line that makes the account")
	}
	checks := oneOfEach(t)
	checks[3].Cost = 2
	acl := "redis-cli -s '" + s.Socket + "' ACL SETUSER limiter " + line + " resetkeys"
	for _, c := range checks {
		acl += " '~" + string(c.Key) + "'" // these and no others
	}
	if got := rig.Command(t, ".", "sh", "-c", acl); got != "OK\n" {
		t.Fatal(got)
	}
	limiter := &rig.Scripts{RedisServer: &rig.RedisServer{Client: redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.Socket, Username: "limiter", Password: "secret", DisableIdentity: true,
	})}, Sha: s.Sha}
	defer limiter.Close()
	for _, c := range checks { // at once, then after a window, when the log has members to remove
		for _, nowUS := range []int64{rig.ScriptsNow, rig.ScriptsNow, rig.ScriptsNow + 60000000, 0} {
			if got := limiter.Single(nowUS, c, false); strings.Contains(got, "NOPERM") || strings.Contains(got, "ERR") {
				t.Errorf("%s: %s", c.Limit.Name, got)
			}
		}
	}
	for _, nowUS := range []int64{rig.ScriptsNow, rig.ScriptsNow + 60000000, 0} {
		if got := limiter.Take(nowUS, false, checks...); strings.Contains(got, "NOPERM") || strings.Contains(got, "ERR") {
			t.Errorf("take: %s", got)
		}
	}
	other := checks[0]
	other.Key = []byte("other")
	for _, got := range []string{limiter.Single(0, other, false), limiter.Take(0, false, checks[1], other)} {
		if !strings.HasPrefix(got, "NOPERM") {
			t.Errorf("with a key of somebody else: %s, want NOPERM", got)
		}
	}
	if err := limiter.ScriptLoad(context.Background(), redisscripts.Take().Text).Err(); err != nil {
		t.Error(err)
	}
}

func TestTheFragmentsAnswerAlikeInLuaAndInNginxsLuaJIT(t *testing.T) {
	fragments, err := filepath.Abs("../redisscripts/src/lib")
	if err != nil {
		t.Fatal(err)
	}
	driver, err := filepath.Abs("lua/fragments.lua")
	if err != nil {
		t.Fatal(err)
	}
	lua := rig.Command(t, ".", "lua5.1", driver, fragments)
	dir := t.TempDir()
	conf := fmt.Sprintf(`
		load_module /usr/lib/nginx/modules/ndk_http_module.so;
		load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
		pid nginx.pid;
		events { }
		http {
			init_by_lua_block {
				assert(jit, "this is not LuaJIT")
				assert(loadfile("%s"))("%s")
				os.exit(0) -- before nginx serves anything
			}
		}`, driver, fragments)
	if err := os.WriteFile(filepath.Join(dir, "nginx.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	luajit := strings.Split(rig.Command(t, dir, "nginx", "-p", dir, "-c", "nginx.conf", "-e", "stderr"), "\n")
	for i, line := range strings.Split(lua, "\n") {
		if i >= len(luajit) || line != luajit[i] {
			t.Fatalf("line %d: lua5.1 answers\n%s, LuaJIT\n%s", i+1, line, luajit[min(i, len(luajit)-1)])
		}
	}
	names, err := filepath.Glob("../redisscripts/src/lib/*.lua")
	if err != nil || len(names) == 0 {
		t.Fatal("no fragments", err)
	}
	for _, name := range names {
		if name = strings.TrimSuffix(filepath.Base(name), ".lua"); !strings.Contains(lua, "\n"+name+" ") {
			t.Errorf("lua/fragments.lua does not ask %s", name)
		}
	}
}
