//go:build race

package rig

// BuildFlags: a binary under test looks for races when its tests do.
var BuildFlags = []string{"-race"}
