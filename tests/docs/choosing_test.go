package docs

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"authz/tests/rig"
)

// The commands of docs/choosing.md print what it shows, run from its top to its end in one folder. What prove
// prints is compared but for numbers and the picture, which are of another machine and another moment.
func TestTheCommandsOfChoosingPrintWhatItShows(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/choosing.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rig.ReplaceFile(t, filepath.Join(dir, "access.log"), morningLog())
	rig.ReplaceFile(t, filepath.Join(dir, "sale-2025.log"), saleLog())

	text := string(page)
	fileName := regexp.MustCompile("`([a-z-]+\\.(?:toml|conf))`")
	ran := map[string]int{}
	var serving *rig.AuthzServer
	var proofs sync.WaitGroup
	for _, m := range regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatchIndex(text, -1) {
		kind, block := text[m[2]:m[3]], text[m[4]:m[5]]
		ran[kind]++
		switch kind {
		case "toml", "nginx": // of the name that was said last
			names := fileName.FindAllStringSubmatch(text[:m[0]], -1)
			rig.ReplaceFile(t, filepath.Join(dir, names[len(names)-1][1]), block)
		case "sh":
			file, _ := strings.CutPrefix(strings.TrimSpace(block), "authz serve --limits ")
			serving = rig.StartAuthz(t, "--limits="+filepath.Join(dir, file))
		case "console":
			command, want, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
			if strings.HasPrefix(command, "authz prove ") {
				at := serving
				proofs.Go(func() { compareRun(t, dir, at, command, want, shapeOfProof) })
			} else {
				compareRun(t, dir, serving, command, want, strings.TrimSpace)
			}
		}
	}
	proofs.Wait()
	if ran["toml"] != 4 || ran["nginx"] != 1 || ran["sh"] != 3 || ran["console"] != 22 || len(ran) != 4 {
		t.Errorf("ran %v, want 4 toml, 1 nginx, 3 sh and 22 console blocks", ran)
	}
	report, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || bytes.Count(report, []byte("<svg")) != 3 {
		t.Errorf("report.html: %v, %d pictures, want 3", err, bytes.Count(report, []byte("<svg")))
	}
}

// compareRun runs a command of the page, which asks the authz that serves, and compares what it prints.
func compareRun(t *testing.T, dir string, serving *rig.AuthzServer, command, want string, shape func(string) string) {
	t.Helper()
	ask := command
	if serving != nil {
		ask = strings.NewReplacer("127.0.0.1:7429", serving.Addr, "127.0.0.1:7430", serving.Admin).Replace(command)
	}
	cmd := exec.Command("sh", "-c", ask)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(rig.AuthzBinary(t))+":"+os.Getenv("PATH"))
	if serving != nil {
		cmd.Env = append(cmd.Env, "AUTHZ_ADMIN="+serving.Admin)
	}
	out, err := cmd.CombinedOutput()
	if got := shape(string(out)); err != nil || got != shape(want) {
		t.Errorf("%s: %v, prints\n%s\nwant\n%s\nthat is\n%s\nagainst\n%s", command, err, out, want, got, shape(want))
	}
}

var (
	proofPicture = regexp.MustCompile(`(?m)^ .*\n`)
	proofNumber  = regexp.MustCompile(`\d[\d.:]*(µs|ms|s)?`)
	proofPromise = regexp.MustCompile(`[a-z_]+, \d+/\w+ promises \d+ at most`)
)

// shapeOfProof is what a run says, whatever it measured, and what it was measured by.
func shapeOfProof(text string) string {
	promises := proofPromise.FindAllString(text, -1)
	text, _, _ = strings.Cut(proofNumber.ReplaceAllString(proofPicture.ReplaceAllString(text, ""), "N"), " at most: ")
	return strings.TrimSpace(text) + "\n" + strings.Join(promises, "\n")
}
