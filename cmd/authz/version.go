package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

type versionCmd struct{}

func (versionCmd) Run(c *console) error {
	fmt.Fprintln(c.out, build())
	return nil
}

// build says what runs.
func build() string { return "authz " + version() + " " + runtime.Version() }

// release is set by the linker: -X main.release=1.2.3.
var release string

// version is the release, or else what Go knows of the checkout that was built.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
