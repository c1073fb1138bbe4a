package openresty

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authz/redisscripts"
	"authz/tests/rig"
)

// What Go embeds, what nginx loaded and what Redis calls them is one and the same.
func TestEverySideHasTheSameScripts(t *testing.T) {
	r := rig.StartRedis(t)
	p := rig.StartPackStores(t, r)
	_, text, err := p.Post("/scripts", "")
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
	rig.Same(t, strings.Join(loaded, "\n"), strings.Join(embedded, "\n"))
	rig.Same(t, strings.Join(inRedis, "\n"), strings.Join(embedded, "\n"))
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

// rock is what the rockspec says: its version, and where each of its modules comes from.
func rock(t testing.TB) (version string, modules map[string]string) {
	t.Helper()
	names, err := filepath.Glob("../lua/*.rockspec")
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, want one rockspec (%v)", names, err)
	}
	out, err := exec.Command("lua5.1", "-e", fmt.Sprintf(`
		local spec = {}
		setfenv(assert(loadfile(%q)), spec)()
		print(spec.version)
		for name, file in pairs(spec.build.modules) do print(name, file) end`, names[0])).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	version, list, _ := strings.Cut(string(out), "\n")
	modules = map[string]string{}
	for line := range strings.Lines(list) {
		name, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
		modules[name] = file
	}
	return version, modules
}

// copyPack is the pack as LuaRocks installs it: files, where the repository has links.
func copyPack(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	_, modules := rock(t)
	for name, file := range modules {
		text, err := os.ReadFile(filepath.Join("../lua", file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, strings.ReplaceAll(name, ".", "/")+".lua")
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What is installed is all that there is: opm takes the folder, LuaRocks what the rockspec lists.
func TestThePackagesAreWholeAndOfOneVersion(t *testing.T) {
	version, modules := rock(t)
	var listed, there []string
	for _, file := range modules {
		listed = append(listed, file)
	}
	for _, pattern := range []string{"resty/*.lua", "resty/authz/*.lua", "resty/authz/v1/*.lua"} {
		names, err := filepath.Glob("../lua/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			there = append(there, strings.TrimPrefix(name, "../lua/"))
		}
	}
	slices.Sort(listed)
	slices.Sort(there)
	rig.Same(t, strings.Join(listed, "\n"), strings.Join(there, "\n"))

	ini, err := os.ReadFile("../lua/dist.ini")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("../lua/resty/authz.lua")
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ = strings.Cut(version, "-")
	for file, want := range map[string]string{string(ini): "\nversion = " + version + "\n", string(code): "\n_M._VERSION = \"" + version + "\"\n"} {
		if !strings.Contains(file, want) {
			t.Errorf("no %q in\n%.300s", want, file)
		}
	}
}
