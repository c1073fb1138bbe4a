//go:build race

package main

// The race detector is slow.
const million = 100_000
