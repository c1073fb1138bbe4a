package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Between these lines of performance.md stands what was measured.
const (
	beginMark = "<!-- begin: make bench -->\n"
	endMark   = "<!-- end: make bench -->\n"
)

// writeDocs replaces the tables in dir/performance.md, and the picture beside it.
func (r *report) writeDocs(dir string) error {
	name := filepath.Join(dir, "performance.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	replaced, err := between(string(text), "![Checks a second and p99, of the floor](performance.svg)\n\n"+r.markdown())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.WriteFile(name, []byte(replaced), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance.svg"), []byte(svg(r.charts())), 0o644)
}

// between replaces what stands between the marks.
func between(text, what string) (string, error) {
	before, rest, begins := strings.Cut(text, beginMark)
	_, after, ends := strings.Cut(rest, endMark)
	if !begins || !ends {
		return "", fmt.Errorf("want %q and %q, each on a line of its own", beginMark, endMark)
	}
	return before + beginMark + "\n" + what + "\n" + endMark + after, nil
}
