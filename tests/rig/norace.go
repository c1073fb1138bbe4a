//go:build !race

package rig

var BuildFlags []string
