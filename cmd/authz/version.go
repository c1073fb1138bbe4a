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
func build() string {
	text := "authz " + version()
	if r := revision(); r != "" {
		text += " (" + r + ")"
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// revision is the commit that was built, "" if nobody knows; of a tree that was changed since it ends in "+".
func revision() (text string) {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			text += "+"
		}
	}
	return text
}

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
