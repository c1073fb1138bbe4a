package service

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A lineChannel is where a log goes whose lines are waited for.
type lineChannel chan string

func (c lineChannel) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}

// Each row is a way to lead to the files, and changes of it; every change has to be noticed by itself.
func TestAChangeOnTheWayToAFileIsAReload(t *testing.T) {
	check := func(name, path, start string, changes ...string) {
		t.Helper()
		dir := t.TempDir()
		n := 0
		// do runs lines of: mkdir DIR, write FILE, ln TARGET LINK (in place of the one before), mv OLD NEW, rm NAME.
		do := func(line string) {
			t.Helper()
			f := strings.Fields(line)
			last := filepath.Join(dir, f[len(f)-1])
			var err error
			switch f[0] {
			case "mkdir":
				err = os.MkdirAll(last, 0o700)
			case "write":
				n++
				err = os.WriteFile(last, []byte("[limit.a]\nkey = []\nalgorithm = \"fixed_window\"\nrate = \""+strings.Repeat("1", n)+"/d\"\n"), 0o600)
			case "ln":
				if err = os.Symlink(strings.ReplaceAll(f[1], "DIR", dir), last+".new"); err == nil {
					err = os.Rename(last+".new", last)
				}
			case "mv":
				err = os.Rename(filepath.Join(dir, f[1]), last)
			case "rm":
				err = os.RemoveAll(last)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, line := range strings.Split(start, "; ") {
			do(line)
		}
		s := serviceFor(t, tokens)
		logged := make(lineChannel, 100)
		r := &reloader{service: s, prefix: "authz", paths: []string{filepath.Join(dir, path)}, log: slog.New(slog.NewTextHandler(logged, nil))}
		if err := r.open(); err != nil {
			t.Fatal(err)
		}
		defer r.files.Close()
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		defer r.start(t.Context())()
		for _, change := range changes {
			change, want, _ := strings.Cut(change, " => ")
			for _, line := range strings.Split(change, "; ") {
				do(line)
			}
			for found := false; !found; {
				select {
				case line := <-logged:
					found = strings.Contains(line, want)
				case <-time.After(20 * time.Second):
					t.Fatalf("%s: %s: not noticed, want %s", name, change, want)
				}
			}
		}
	}
	const changed, missing = " => changed=true", " => no such file"

	check("a file", "f.conf", "write f.conf", "write f.conf"+changed, "rm f.conf"+missing, "write f.conf"+changed)
	check("a folder", "d", "mkdir d; write d/a.toml", "write d/a.toml"+changed, "write d/b.toml => limits not reloaded", "rm d/b.toml => limits reloaded")
	check("a folder of links", "d", "mkdir d; mkdir o; write o/x.conf; ln ../o/x.conf d/a.toml", "write o/x.conf"+changed, "write o/y; ln DIR/o/y d/a.toml"+changed, "write o/y"+changed)
	check("a chain", "f.toml", "mkdir 1; mkdir 2; write 1/x; write 2/x; ln 1 hop; ln hop/x middle; ln middle f.toml",
		"ln 2 hop"+changed, "write 2/x"+changed, "ln 1/x middle"+changed, "write 1/x"+changed)
	check("a link to a folder", "l", "mkdir 1; write 1/a.toml; mkdir 2; write 2/a.toml; ln 1 l", "write 1/a.toml"+changed, "ln 2 l"+changed, "write 2/a.toml"+changed)
	check("a folder that is replaced", "d/f.toml", "mkdir d; write d/f.toml; mkdir e; write e/f.toml",
		"mv d old => no such file", "mv e d"+changed, "write d/f.toml"+changed)
	check("a link to nothing", "f.toml", "write x; ln x f.toml", "ln y f.toml"+missing, "write y"+changed)
	check("Kubernetes", "f.toml", "mkdir ..1; write ..1/f.toml; ln ..1 ..data; ln ..data/f.toml f.toml", "mkdir ..2; write ..2/f.toml; ln ..2 ..data"+changed,
		"rm ..1; write ..2/f.toml"+changed)
}

func TestOnlyWhatLimitsAreReachedByConcerns(t *testing.T) {
	r := &reloader{names: map[string]bool{"/d": true, "/d/rules.conf": true, "/d/current": true}}
	check := func(name string, want bool) {
		t.Helper()
		if got := r.concerns(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	check("/d/rules.conf", true)
	check("/d/other.toml", true)
	check("/d/current", true)
	check("/d", true) // moved away, with all that is in it
	check("/d/other.conf", false)
	check("/d/.rules.conf.swp", false)
	check("/d/4913", false) // vim asks with it whether it may write
}
