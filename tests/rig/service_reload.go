package rig

import (
	"fmt"
	"testing"
)

// Admits asks n times and counts the 200s.
func (c *Checker) Admits(t testing.TB, n int, line string) int {
	t.Helper()
	admitted := 0
	for range n {
		if c.Check(t, line, nil) == "200" {
			admitted++
		}
	}
	return admitted
}

func Limit(name, algorithm, rate string) string {
	return fmt.Sprintf("[limit.%s]\nmatch = { path = \"/%s\" }\nkey = []\nalgorithm = %q\nrate = %q\n", name, name, algorithm, rate)
}
