//go:build !race

package service

const million = 1_000_000
