//go:build ignore

// Compose writes each script of src/ to v1/ with its fragments of src/lib pasted in, and v1/SHA1SUMS,
// which the OpenResty pack carries as Lua. An argument names another folder to write to; the pack is left
// as it is then.
package main

import (
	"bytes"
	"crypto/sha1"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	dir := "v1"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	entries, err := filepath.Glob("src/*.lua")
	if err != nil || len(entries) == 0 {
		log.Fatalf("src/*.lua: nothing here to compose (%v)", err)
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		text, name := compose(entry), filepath.Base(entry)
		write(filepath.Join(dir, name), text)
		fmt.Fprintf(&sums, "%x  %s\n", sha1.Sum(text), name)
	}
	write(filepath.Join(dir, "SHA1SUMS"), sums.Bytes())
	if len(os.Args) == 1 {
		write("../lua/resty/authz/v1/sha1sums.lua", fmt.Appendf(nil,
			"-- redisscripts/v1/SHA1SUMS as Lua, since opm carries nothing else. go generate writes it.\nreturn [[\n%s]]\n", &sums))
	}
}

// compose is the entry with every line "-- include NAME" replaced by src/lib/NAME.lua.
func compose(entry string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "-- Composed by go generate from %s and src/lib; edit those.\n", entry)
	pasted := map[string]bool{}
	for i, line := range strings.SplitAfter(read(entry), "\n") {
		name, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- include ")
		switch {
		case !found:
			out.WriteString(line)
		case pasted[name]:
			log.Fatalf("%s:%d: include %s, want each fragment once", entry, i+1, name)
		default:
			pasted[name] = true
			out.WriteString(read("src/lib/" + name + ".lua"))
		}
	}
	return out.Bytes()
}

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	return string(text)
}

func write(file string, text []byte) {
	if err := os.WriteFile(file, text, 0o644); err != nil {
		log.Fatal(err)
	}
}
