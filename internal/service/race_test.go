//go:build race

package service

// The race detector is slow.
const million = 100_000
