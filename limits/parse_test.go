package limits

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestWhatIsNoLimitsFileIsSaidWithoutALine(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("empty", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("empty.toml", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	errs := func(want, prefix string, paths ...string) {
		t.Helper()
		set, err := Load(prefix, paths...)
		if err == nil || set != nil || err.Error() != want {
			t.Errorf("Load(%q, %q) = %v, %v, want no set and:\n%s", prefix, paths, set, err, want)
		}
	}
	errs("no limits file is named, want at least one file or folder", "authz")
	errs("none.toml: no such file or directory, want a limits file or a folder with *.toml files", "authz", "none.toml")
	errs("empty.toml: no rules, want at least one [limit.NAME], [allow.NAME] or [deny.NAME]", "authz", "empty.toml")
	errs("empty: no *.toml in this folder, want at least one limits file", "authz", "empty.toml", "empty")
	const want = `redis prefix %q, want 1 to 64 of A-Z a-z 0-9 . _ ~ : / @ + - =`
	for _, prefix := range []string{"", "a{b}", "a b", "a\n", "ä", "a%", strings.Repeat("a", 65)} {
		errs(fmt.Sprintf(want, prefix), prefix, "empty.toml")
	}
	// One bad file is enough for no set, and what might stand in it is not missed in the others.
	if err := os.WriteFile("override.toml", []byte("[override.plan.a]\nrate = '5/s'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	errs("none.toml: no such file or directory, want a limits file or a folder with *.toml files", "authz", "empty.toml", "none.toml", "override.toml")
}

// To open a pipe is to wait for somebody who writes.
func TestAPipeIsNotWaitedFor(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("pipe.toml", 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{".", "pipe.toml"} {
		const want = "pipe.toml: not a regular file, want a limits file"
		if _, err := Load("authz", path); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestTheFilesAreThoseThatLoadReads(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("bad"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one.conf", "dir/b.toml", "dir/a.toml", "dir/.#a.toml", "dir/a.toml~", "dir/sub/c.toml", "elsewhere/d.toml"} {
		write(name)
	}
	if err := os.Symlink("../elsewhere/d.toml", "dir/d.toml"); err != nil {
		t.Fatal(err)
	}
	paths := []string{"one.conf", "none.toml", "dir"}
	if got, want := fmt.Sprint(Files(paths...)), "[one.conf none.toml dir/a.toml dir/b.toml dir/d.toml]"; got != want {
		t.Errorf("files %s, want %s", got, want)
	}
	_, err := Load("authz", paths...)
	errs, _ := err.(Errors)
	for i, name := range Files(paths...) {
		if len(errs) != 5 || !strings.HasPrefix(errs[i], name+":") {
			t.Errorf("Load says %q, want an error of each file in this order, %s at %d", errs, name, i)
		}
	}
}

func TestTheExamplesLoad(t *testing.T) {
	names, err := filepath.Glob("examples/*.toml")
	if err != nil || len(names) < 4 {
		t.Fatalf("%d examples, %v, want at least 4", len(names), err)
	}
	for _, name := range names {
		set, err := Load("authz", name)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(set.Limits()) == 0 {
			t.Errorf("%s has no limits", name)
		}
	}
}

func TestTheShareOfOneInstanceIsTheRateItself(t *testing.T) {
	set := load(t, `[limit.login]
key = ["ip"]
algorithm = "token_bucket"
rate = "5/m"
[override.login."10.0.0.1"]
rate = "6/m"`)
	for _, rate := range []*Rate{&set.Limits()[0].Rate, set.spec.limits[0].overrides[0].rate} {
		if rate.Share != nil || rate.Local() != rate {
			t.Errorf("the share of %s is %s, want the rate itself", rate, rate.Local())
		}
	}
}

// Tens of thousands of overrides are nothing special, also when every one is wrong.
func TestFiftyThousandOverridesAreRead(t *testing.T) {
	const limit = "[limit.plan]\nkey = [\"header:X-API-Key\"]\nmissing = \"skip\"\nalgorithm = \"token_bucket\"\nrate = \"5/s\"\n"
	var good, bad strings.Builder
	good.WriteString(limit)
	bad.WriteString(limit)
	for i := range 50000 {
		fmt.Fprintf(&good, "[override.plan.\"key-%d\"]\nrate = \"%d/s\"\n", i, i+1)
	}
	for i := range 5000 {
		fmt.Fprintf(&bad, "[override.plan.\"key-%d\"]\nbrust = %d\nrate = \"6/s\"\n", i, i)
	}
	if n := len(load(t, good.String()).spec.limits[0].overrides); n != 50000 {
		t.Errorf("%d overrides, want 50000", n)
	}
	name := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(name, []byte(bad.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load("authz", name)
	errs, ok := err.(Errors)
	if !ok || len(errs) != 5000 {
		t.Fatalf("%d errors, want 5000", len(errs))
	}
	want := name + `:15004: override.plan.*` // the last of the keys, without the key
	if last := errs[4999]; !strings.HasPrefix(last, want) || !strings.HasSuffix(last, ": unknown key brust, want burst") {
		t.Errorf("the last error is %s, want %s...: unknown key brust, want burst", last, want)
	}
}

func load(t testing.TB, text string) *Set {
	t.Helper()
	name := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := Load("authz", name)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// FuzzLoad reads any bytes as a limits file: nothing panics, every error names a line that the file
// has, and what loads has the same valid JSON each time.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"../tests/vectors/limits/*.txt", "examples/*.toml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatalf("no seeds in %s, %v", pattern, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			seed, _, _ := strings.Cut(string(text), "\n----\n")
			f.Add([]byte(seed))
		}
	}
	located := regexp.MustCompile(`^limits\.toml:([1-9][0-9]*): [^\n]+$`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		t.Chdir(dir)
		if err := os.WriteFile("limits.toml", text, 0o644); err != nil {
			t.Fatal(err)
		}
		set, err := Load("authz", "limits.toml")
		again, err2 := Load("authz", "limits.toml")
		if fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("first\n%v\nthen\n%v", err, err2)
		}
		if err != nil {
			if err.Error() == "limits.toml: no rules, want at least one [limit.NAME], [allow.NAME] or [deny.NAME]" {
				return
			}
			for _, one := range err.(Errors) {
				var line int
				if m := located.FindStringSubmatch(one); m != nil {
					fmt.Sscan(m[1], &line)
				}
				if line < 1 || line > strings.Count(string(text), "\n")+1 {
					t.Errorf("%q, want limits.toml:LINE: and one line of text", one)
				}
			}
			return
		}
		if !json.Valid(set.JSON()) {
			t.Errorf("not JSON: %s", set.JSON())
		}
		if a, b := string(set.JSON()), string(again.JSON()); a != b {
			t.Errorf("first\n%s\nthen\n%s", a, b)
		}
	})
}

// The library holds a key with the names of all tables around it: a long name makes each key weigh more.
func TestKeysInLongNamesWeighMore(t *testing.T) {
	long := strings.Repeat("x", 128_000)
	for _, text := range []string{
		"[limit." + long + "]\n" + strings.Repeat("k = 1\n", 1000),
		"[[limit." + long + "]]\n" + strings.Repeat("k = 1\n", 1000),
		"[limit.'" + long + "']\nlist = [\n]\n" + strings.Repeat("k = 1\n", 1000),
		long + " = {" + strings.Repeat("k = 1, ", 1000) + "}\n",
		long + " = [{" + strings.Repeat("k = 1, ", 1000) + "}]\n",
		"[limit.a]\n" + long + " = { a = { " + strings.Repeat("k = 1, ", 1000) + "}}\n",
	} {
		var r room
		if line, err := r.take(text); err == nil || !strings.Contains(err.Error(), "too large from here on") {
			t.Errorf("line %d, weight %d, %v, want too large: %.20s", line, r.weight, err, text)
		}
	}
	var r room
	if _, err := r.take("[limit." + long + "]\nk = 1\n[limit.a]\n" + strings.Repeat("k = [[1], [2]]\n", 1000)); err != nil || r.weight > 30_000 {
		t.Errorf("weight %d, %v, want keys of the table after a long name to weigh 4", r.weight, err)
	}
}
