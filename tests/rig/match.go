package rig

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// RunMatchVectors asks what vectors/match has: a limits file, a line of dashes, then requests, each
// followed by the answer that `authz explain --json` gives to it, byte for byte.
func RunMatchVectors(t *testing.T, ask func(t testing.TB, file, requests string) []string) {
	t.Helper()
	names, err := filepath.Glob("vectors/match/*.txt")
	if err != nil || len(names) < 40 {
		t.Fatalf("%d vectors, %v, want at least 40", len(names), err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			file, lines, ok := strings.Cut("\n"+string(text), "\n----\n")
			if !ok {
				t.Fatalf("%s has no line ----", name)
			}
			var requests, want []string
			for line := range strings.Lines(lines) {
				if len(requests) == len(want) {
					requests = append(requests, line)
				} else {
					want = append(want, line)
				}
			}
			if len(requests) == 0 || len(requests) != len(want) {
				t.Fatalf("%d requests and %d answers, want one for each", len(requests), len(want))
			}
			got := ask(t, file, strings.Join(requests, ""))
			for i := range requests {
				if i >= len(got) || got[i] != want[i] {
					t.Errorf("%s got %s want %s", requests[i], strings.Join(got[min(i, len(got)):min(i+1, len(got))], ""), want[i])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d answers, want %d", len(got), len(want))
			}
		})
	}
}

// Explain runs `authz explain --json` on a limits file and returns the lines that it answers.
func Explain(t testing.TB, file, requests string) []string {
	t.Helper()
	cmd := exec.Command(AuthzBinary(t), "explain", "--json", "--limits", LimitsFile(t, file))
	cmd.Stdin = strings.NewReader(requests)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil || said.Len() > 0 {
		t.Fatalf("%v: %s", err, said.String())
	}
	var answers []string
	for line := range strings.Lines(string(out)) {
		answers = append(answers, line)
	}
	return answers
}
