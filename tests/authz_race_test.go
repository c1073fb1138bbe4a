//go:build race

package tests

// buildFlags: a binary under test looks for races when its tests do.
var buildFlags = []string{"-race"}
