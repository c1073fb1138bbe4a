// Scripts counts the instructions that Redis spends on a check, for each script and size of batch:
// it runs redis-server under valgrind's callgrind and sends it fixed series of calls. Unlike seconds,
// instructions are the same on a busy machine.
//
//	go run ./scripts [-scripts ../../redisscripts/v1] [-only REGEXP] [-keep DIR]
//
// Counted is all that Redis does between reading a call and having written its reply, the kernel's
// part left out. It writes a Markdown table.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"regexp"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("scripts", "../../redisscripts/v1", "the folder of the composed scripts")
	only := flag.String("only", "", "the series to run, a regular expression on their names")
	keep := flag.String("keep", "", "a folder for callgrind's files, to be read with callgrind_annotate")
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	r, err := startRedis(*keep)
	if err != nil {
		log.Fatal(err)
	}
	defer r.stop()
	sha := map[string]string{}
	files, err := filepath.Glob(filepath.Join(*dir, "*.lua"))
	if err != nil || len(files) == 0 {
		log.Fatalf("%s: no scripts here (%v)", *dir, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			log.Fatal(err)
		}
		name := filepath.Base(file[:len(file)-len(".lua")])
		sha[name] = string(r.must("SCRIPT", "LOAD", string(text))[5:45])
	}
	sha["return 1"] = string(r.must("SCRIPT", "LOAD", "return 1")[5:45])
	fmt.Println("| series | instructions a call | a check |\n|---|---:|---:|")
	for _, s := range allSeries(sha) {
		if !wanted.MatchString(s.name) {
			continue
		}
		perCall := r.measure(s)
		fmt.Printf("| %s | %.0f | %.0f |\n", s.name, perCall, perCall/float64(s.checks))
	}
}
