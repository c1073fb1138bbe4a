// Scripts measures what a check costs Redis, for each script and size of batch. It sends fixed series
// of calls to a redis-server, under valgrind's callgrind to count instructions, which are the same
// on a busy machine, or with -time on its own, to read the CPU time that it took.
//
//	go run ./scripts [-time] [-only REGEXP] [FOLDER ...]
//
// A folder holds composed scripts; several, such as those of two commits, stand side by side. The
// default is ../../redisscripts/v1. It writes a Markdown table; times are medians of rounds in which the
// folders take turns, in brackets what Redis itself says that the calls took (INFO commandstats).
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	log.SetFlags(0)
	timed := flag.Bool("time", false, "measure CPU time under load instead of counting instructions")
	only := flag.String("only", "", "the series to run, a regular expression on their names")
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"../../redisscripts/v1"}
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	measure, unit, format, rounds := (*server).count, "instructions a check", "%.0f", 1
	if *timed {
		measure, unit, format, rounds = (*server).time, "CPU µs a check", "%.1f", 7
	}
	s := startRedis(!*timed)
	defer s.stop()
	var texts []map[string]string
	for _, folder := range folders {
		texts = append(texts, s.load(folder))
	}
	fmt.Printf("| %s: | %s |\n|---|%s\n", unit, strings.Join(folders, " | "), strings.Repeat("---:|", len(folders)))
	columns := make([][]series, len(folders))
	for i, sha := range texts {
		columns[i] = allSeries(sha, s.knowsRows(sha["take"]))
	}
	for i, one := range columns[0] {
		if !wanted.MatchString(one.name) {
			continue
		}
		found := make([][][]float64, len(folders)) // by folder, number, round
		for range rounds {
			for j := range folders {
				for k, v := range measure(s, columns[j][i]) {
					if k == len(found[j]) {
						found[j] = append(found[j], nil)
					}
					found[j][k] = append(found[j][k], v)
				}
			}
		}
		fmt.Print("| ", one.name)
		for _, numbers := range found {
			fmt.Printf(" | "+format, median(numbers[0]))
			if len(numbers) > 1 {
				fmt.Printf(" ("+format+")", median(numbers[1]))
			}
		}
		fmt.Println(" |")
	}
}

// least is the least that a script can do which keeps buckets: read the keys and write them.
const least = `
local states = redis.call("MGET", unpack(KEYS))
for i = 1, #KEYS do
  redis.call("SET", KEYS[i], states[i] or "1:3600000:1767225600000000", "PX", "3600000")
end
return states`

func median(numbers []float64) float64 {
	slices.Sort(numbers)
	return numbers[len(numbers)/2]
}

// load loads the scripts of a folder, and returns their SHA by name.
func (s *server) load(folder string) map[string]string {
	sha := map[string]string{"return 1": s.must("SCRIPT", "LOAD", "return 1"), "least": s.must("SCRIPT", "LOAD", least)}
	files, err := filepath.Glob(filepath.Join(folder, "*.lua"))
	if err != nil || len(files) == 0 {
		log.Fatalf("%s: no scripts here (%v)", folder, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		sha[strings.TrimSuffix(filepath.Base(file), ".lua")] = s.must("SCRIPT", "LOAD", string(text))
	}
	return sha
}

// knowsRows says whether a take lets a check refer to the numbers of an earlier one; the first
// ones did not.
func (s *server) knowsRows(sha string) bool {
	reply := s.ask(command("EVALSHA", sha, "2", "a", "b", "0", "1", "3", "5", "60000000", "0", "1", "1", "6"))
	return !strings.HasPrefix(reply, "-")
}
