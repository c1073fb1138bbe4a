package rig

import (
	"os"
	"path/filepath"
	"testing"

	"authz/limits"
)

func Compile(t testing.TB, toml string) *limits.Set {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limits.toml")
	if err := os.WriteFile(path, []byte(toml), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := limits.Load("authz", path)
	if err != nil {
		t.Fatalf("%v\n%s", err, toml)
	}
	return set
}
