//go:build ignore

// Zones writes zones.txt: the time zones of the Go release that runs it.
package main

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const layout = "2006-01-02T15:04"

var (
	from  = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	until = time.Date(2061, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
)

func main() {
	log.SetFlags(0)
	dir := filepath.Join(runtime.GOROOT(), "lib", "time")
	files, err := zip.OpenReader(filepath.Join(dir, "zoneinfo.zip"))
	if err != nil {
		log.Fatal(err)
	}
	names := map[string][]string{} // by what their clocks show
	for _, f := range files.File {
		if f.FileInfo().IsDir() || f.Name == "Factory" {
			continue
		}
		clocks := clocksOf(load(f))
		names[clocks] = append(names[clocks], f.Name)
	}
	var lines []string
	for _, clocks := range slices.Collect(maps.Keys(names)) {
		slices.Sort(names[clocks])
		lines = append(lines, strings.Join(names[clocks], " ")+": "+clocks+"\n")
	}
	slices.Sort(lines)
	var text bytes.Buffer
	fmt.Fprintf(&text, `# The IANA time zones, release %s, which is in the public domain. A line has the names of zones whose
# clocks show the same from 2024 to 2060: how many minutes they are east of UTC when 2024 begins, then each
# time at which that changes, in UTC, and what it is from there on. go generate writes it.
`, release(dir))
	text.WriteString(strings.Join(lines, ""))
	if err := os.WriteFile("zones.txt", text.Bytes(), 0o644); err != nil {
		log.Fatal(err)
	}
}

// release is what the script that made the zip has asked for.
func release(dir string) string {
	script, err := os.ReadFile(filepath.Join(dir, "update.bash"))
	found := regexp.MustCompile(`(?m)^DATA=(\w+)$`).FindSubmatch(script)
	if err != nil || found == nil {
		log.Fatalf("update.bash: %v, want a line DATA=RELEASE", err)
	}
	return string(found[1])
}

func load(f *zip.File) *time.Location {
	r, err := f.Open()
	if err != nil {
		log.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		log.Fatal(err)
	}
	zone, err := time.LoadLocationFromTZData(f.Name, data)
	if err != nil {
		log.Fatal(f.Name, ": ", err)
	}
	return zone
}

// clocksOf is what follows the names. It looks every six hours (Time.ZoneBounds is wrong about the last
// days of leap years), which no change and its opposite are within.
func clocksOf(zone *time.Location) string {
	offset := func(second int64) int {
		_, seconds := time.Unix(second, 0).In(zone).Zone()
		if seconds%60 != 0 {
			log.Fatalf("%s: %d seconds east of UTC, want whole minutes", zone, seconds)
		}
		return seconds / 60
	}
	const step = 6 * 3600
	clocks := fmt.Sprint(offset(from))
	for t := from; t < until; t += step {
		if offset(t) == offset(t+step) {
			continue
		}
		before, after := t, t+step
		for after-before > 1 {
			if middle := (before + after) / 2; offset(middle) == offset(t) {
				before = middle
			} else {
				after = middle
			}
		}
		if after%60 != 0 {
			log.Fatalf("%s: a change at second %d, want a whole minute", zone, after)
		}
		clocks += fmt.Sprintf(" %s=%d", time.Unix(after, 0).UTC().Format(layout), offset(after))
	}
	return clocks
}
