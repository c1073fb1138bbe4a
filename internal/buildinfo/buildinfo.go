// Package buildinfo says what runs: the version, the commit, and by which Go.
package buildinfo

import (
	"runtime"
	"runtime/debug"
)

// Text says what runs.
func Text() string {
	text := "authz " + Version()
	if r := Revision(); r != "" {
		text += " (" + r + ")"
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}

// Revision is the commit that was built, "" if nobody knows; of a tree that was changed since it ends in "+".
func Revision() (text string) {
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

// release is set by the linker: -X authz/internal/buildinfo.release=1.2.3.
var release string

// Version is the release, or else what Go knows of the checkout that was built.
func Version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
