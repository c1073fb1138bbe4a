package docs

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authz/limits"
	"authz/tests/rig"
)

func TestTheCommandsOfTheReadmePrintWhatItShows(t *testing.T) {
	a := rig.StartAuthz(t, "--limits=../limits/examples/quickstart.toml")
	run := func(command string) string {
		cmd := exec.Command("sh", "-c", strings.ReplaceAll(command, "127.0.0.1:7429", a.Addr))
		cmd.Dir = ".."
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(rig.AuthzBinary(t))+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		// How much of the minute is left depends on the machine.
		text := strings.ReplaceAll(string(out), "\r\n", "\n")
		return regexp.MustCompile(`(Retry-After: |;t=)\d+`).ReplaceAllString(strings.TrimSpace(text), "${1}60")
	}
	consoles := rig.Blocks(rig.Readme(t), "console")
	if len(consoles) != 5 {
		t.Fatalf("%d console blocks, want 5", len(consoles))
	}
	for i, block := range consoles {
		command, want, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
		if i == 1 { // "the sixth time"
			for range 4 {
				run(command)
			}
		}
		if got := run(command); got != strings.TrimSpace(want) {
			t.Errorf("%s prints\n%s\nwant\n%s", command, got, want)
		}
	}
}

func TestTheLimitsFileOfTheReadmeLoads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.toml")
	tomls := rig.Blocks(rig.Readme(t), "toml")
	if len(tomls) != 1 {
		t.Fatalf("%d toml blocks, want 1", len(tomls))
	}
	if err := os.WriteFile(file, []byte(tomls[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := limits.Load("authz", file); err != nil {
		t.Error(err)
	}
}

func TestTheReadmeNamesEveryMetric(t *testing.T) {
	redis := rig.StartRedis(t)
	a := rig.StartAuthz(t, "--limits=../limits/examples/quickstart.toml", "--redis="+redis.URL(), "--redis-timeout=20s")
	memory := rig.StartAuthz(t, "--limits=../limits/examples/quickstart.toml")
	var got []string
	for _, admin := range []string{a.Admin, memory.Admin} {
		answer, err := http.Get("http://" + admin + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`# TYPE (authz_\w+)`).FindAllStringSubmatch(string(text), -1) {
			got = append(got, m[1])
		}
	}
	var want []string
	for _, row := range regexp.MustCompile("(?m)^\\| `authz_.*").FindAllString(rig.Readme(t), -1) {
		for _, m := range regexp.MustCompile("`(authz_\\w+)").FindAllStringSubmatch(row, -1) {
			want = append(want, m[1])
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("/metrics has\n%s\nREADME.md has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTheTablesNameTestsThatExist(t *testing.T) {
	exists := map[string]bool{}
	eachFile(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)`).FindAllSubmatch(text, -1) {
				exists[string(m[1])] = true
			}
		}
	})
	for _, file := range []string{"README.md", "../docs/reliability.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		names := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(text), -1)
		if len(names) < 20 {
			t.Errorf("%s names %d tests, want one for each promise", file, len(names))
		}
		for _, name := range names {
			if !exists[name] {
				t.Errorf("%s names %s, want a test that exists", file, name)
			}
		}
	}
}
