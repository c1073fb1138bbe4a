package limits

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestALimitsFileGivesExactlyThisJSONOrTheseErrors runs tests/vectors/limits: a limits file, a line of
// dashes, and the whole of what must come of it.
func TestALimitsFileGivesExactlyThisJSONOrTheseErrors(t *testing.T) {
	names, err := filepath.Glob("../tests/vectors/limits/*.txt")
	if err != nil || len(names) < 60 {
		t.Fatalf("%d vectors, %v, want at least 60", len(names), err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			files, want, ok := strings.Cut(string(text), "\n----\n")
			if !ok {
				t.Fatalf("%s has no line ----", name)
			}
			t.Chdir(t.TempDir())
			paths := writeFiles(t, files+"\n")
			got := outcome(paths)
			if got != strings.TrimSuffix(want, "\n") {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if again := outcome(paths); again != got {
				t.Errorf("loaded again:\n%s\nwant what came at first:\n%s", again, got)
			}
		})
	}
}

func outcome(paths []string) string {
	set, err := Load("authz", paths...)
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSuffix(set.JSON(), []byte("\n")))
}

// writeFiles writes limits.toml, and what follows a line "-- NAME --" as NAME, and returns the paths
// to load: a folder once for the files in it.
func writeFiles(t *testing.T, text string) (paths []string) {
	t.Helper()
	name, content := "limits.toml", ""
	write := func() {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		path, _, _ := strings.Cut(name, "/")
		if len(paths) == 0 || paths[len(paths)-1] != path {
			paths = append(paths, path)
		}
	}
	for line := range strings.Lines(text) {
		if next, ok := strings.CutPrefix(line, "-- "); ok && strings.HasSuffix(next, " --\n") {
			if name != "limits.toml" || content != "" {
				write()
			}
			name, content = strings.TrimSuffix(next, " --\n"), ""
			continue
		}
		content += line
	}
	write()
	return paths
}
