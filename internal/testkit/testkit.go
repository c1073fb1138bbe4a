// Package testkit has what the tests of several rooms need.
package testkit

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// WriteFile writes a file into a folder of its own, and returns its path.
func WriteFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Log is a log without times, and what it has written.
func Log() (*slog.Logger, *bytes.Buffer) {
	out := new(bytes.Buffer)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), out
}
