package tests

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authz/redisscripts"
)

//go:generate sh -c "{ echo '-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.'; echo 'return [['; cat ../redisscripts/v1/SHA1SUMS; echo ']]'; } > ../lua/resty/authz/v1/sha1sums.lua"

// What Go embeds, what nginx loaded and what Redis calls them is one and the same.
func TestEverySideHasTheSameScripts(t *testing.T) {
	r := startRedis(t)
	p := startPackStores(t, r)
	_, text, err := p.post("/scripts", "")
	if err != nil {
		t.Fatal(err)
	}
	loaded := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(loaded)
	embedded, inRedis := []string{}, []string{}
	for _, s := range redisscripts.All() {
		embedded = append(embedded, s.Name+" "+s.SHA)
		inRedis = append(inRedis, s.Name+" "+r.ScriptLoad(context.Background(), s.Text).Val())
	}
	slices.Sort(embedded)
	slices.Sort(inRedis)
	same(t, strings.Join(loaded, "\n"), strings.Join(embedded, "\n"))
	same(t, strings.Join(inRedis, "\n"), strings.Join(embedded, "\n"))
}

func TestThePackCarriesSHA1SUMS(t *testing.T) {
	sums, err := os.ReadFile("../redisscripts/v1/SHA1SUMS")
	if err != nil {
		t.Fatal(err)
	}
	carried, err := os.ReadFile("../lua/resty/authz/v1/sha1sums.lua")
	if err != nil {
		t.Fatal(err)
	}
	if _, text, _ := strings.Cut(string(carried), "\nreturn [[\n"); text != string(sums)+"]]\n" {
		t.Errorf("lua/resty/authz/v1/sha1sums.lua has\n%swant redisscripts/v1/SHA1SUMS\n%srun go generate ./...", text, sums)
	}
}

// A pack with a changed script does not start, and says which it is and what was expected.
func TestAChangedScriptIsRefusedAtInit(t *testing.T) {
	dir := copyPack(t)
	script := filepath.Join(dir, "resty/authz/v1/token_bucket.lua")
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	said := initError(t, dir, `lua_shared_dict authz 1m;
		init_by_lua_block { assert(require("resty.authz").new{}) }`)
	want := script + ": SHA-1 is "
	if !strings.Contains(said, want) || !strings.Contains(said, ", want ") || !strings.Contains(said, "v1/sha1sums.lua says") {
		t.Errorf("nginx says\n%swant %s…", said, want)
	}
}

// copyPack is the pack as it is installed: files, where the repository has links.
func copyPack(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	names, err := filepath.Glob("../lua/resty/authz/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("../lua/resty/authz/v1/*.lua")
	if err != nil || len(scripts) != 7 {
		t.Fatalf("%d files in v1, want the scripts and their sums (%v)", len(scripts), err)
	}
	for _, name := range append(append(names, scripts...), "../lua/resty/authz.lua") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.TrimPrefix(name, "../lua/"))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
