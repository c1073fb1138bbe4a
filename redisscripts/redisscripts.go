// Package redisscripts is the text and the SHA-1 of every script that runs in Redis. README.md
// is their contract: KEYS, ARGV, reply, stored state.
package redisscripts

import (
	"crypto/sha1"
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:generate go run compose.go

// Version names the contract of the scripts; it stands in every key.
const Version = "v1"

//go:embed v1
var files embed.FS

// Script is what SCRIPT LOAD is given, and the SHA by which EVALSHA calls it.
type Script struct {
	Name    string // as the algorithm, or "take"
	Version string
	Text    string
	SHA     string // SHA-1 of Text, 40 lower-case hex digits
}

// names begins with take; the others are for a single check.
var names = [...]string{
	"take", "token_bucket", "leaky_bucket", "fixed_window", "sliding_window", "sliding_counter",
}

// All returns every script, take first.
func All() []Script {
	all := make([]Script, len(names))
	for i, name := range names {
		all[i] = Named(name)
	}
	return all
}

// Take decides whole requests, many in one call.
func Take() Script { return Named("take") }

// Named is the script of that name, which is "take" or that of an algorithm.
func Named(name string) Script {
	text, err := files.ReadFile(Version + "/" + name + ".lua")
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return Script{name, Version, string(text), fmt.Sprintf("%x", sha1.Sum(text))}
}

// Verify returns an error when a script is not, byte for byte, the one that v1/SHA1SUMS lists.
// Nothing may run then: two versions would charge the same buckets differently.
func Verify() error { return verify(files) }

func verify(files fs.FS) error {
	sums, err := fs.ReadFile(files, Version+"/SHA1SUMS")
	if err != nil {
		return err
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sha, file, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		listed[file] = sha
	}
	for _, name := range names {
		file := name + ".lua"
		text, err := fs.ReadFile(files, Version+"/"+file)
		if err != nil {
			return err
		}
		if sha := fmt.Sprintf("%x", sha1.Sum(text)); sha != listed[file] {
			return fmt.Errorf("redisscripts/%s/%s: SHA-1 is %s, want %q as SHA1SUMS says", Version, file, sha, listed[file])
		}
	}
	return nil
}
