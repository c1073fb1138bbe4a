package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// The commands of docs/choosing.md print what it shows, but for numbers and the picture, which are of another
// machine and another moment.
func TestTheCommandsOfChoosingPrintWhatItShows(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tomls, consoles := blocks(string(text), "toml"), blocks(string(text), "console")
	if len(tomls) != 1 || len(consoles) != 3 {
		t.Fatalf("%d toml and %d console blocks, want 1 and 3", len(tomls), len(consoles))
	}
	replaceFile(t, filepath.Join(dir, "boundary.toml"), tomls[0])
	a := startAuthz(t, "--limits="+filepath.Join(dir, "boundary.toml"))

	picture := regexp.MustCompile(`(?m)^ .*\n`)
	number := regexp.MustCompile(`\d[\d.:]*(µs|ms|s)?`)
	shape := func(text string) string {
		text, _, _ = strings.Cut(number.ReplaceAllString(picture.ReplaceAllString(text, ""), "N"), " at most: ")
		return strings.TrimSpace(text)
	}
	var runs sync.WaitGroup
	for _, block := range consoles {
		runs.Go(func() {
			command, want, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
			cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "127.0.0.1:7429", a.addr))
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(authzBinary(t))+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil || shape(string(out)) != shape(want) {
				t.Errorf("%s: %v, prints\n%s\nwant\n%s\nthat is\n%s\nagainst\n%s", command, err, out, want, shape(string(out)), shape(want))
			}
		})
	}
	runs.Wait()
}
