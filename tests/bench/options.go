package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

type options struct {
	rounds int
	length time.Duration // of a run
	rows   []string      // none: all
	rivals map[string]string
	docs   string
}

func parseOptions(args []string) options {
	o := options{rivals: map[string]string{}}
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	flags.IntVar(&o.rounds, "rounds", 7, "how often every contestant of a row is measured, in turn")
	seconds := flags.Float64("seconds", 4, "how long each time")
	rows := flags.String("rows", "", "which rows, such as redis,nginx (default all)")
	quick := flags.Bool("quick", false, "one round of one second: a minute in all, and only a hint")
	flags.StringVar(&o.docs, "docs", "", "folder of performance.md, in which the tables are replaced, and of performance.svg; not with -quick or -rows")
	flags.Func("ratelimit", "path of the binary of envoyproxy/ratelimit, to be measured too", func(path string) error {
		o.rivals[envoy] = path
		return nil
	})
	flags.Func("rival", "NAME=PATH of another: started as `PATH LISTEN REDIS`, and asked what the service is asked; may be repeated", func(text string) error {
		name, path, ok := strings.Cut(text, "=")
		if !ok {
			return fmt.Errorf("want NAME=PATH")
		}
		o.rivals[name] = path
		return nil
	})
	flags.Parse(args)
	if flags.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: %q is no flag\n", flags.Arg(0))
		os.Exit(2)
	}
	if *quick {
		o.rounds, *seconds = 1, 1
	}
	o.length = time.Duration(*seconds * float64(time.Second))
	if *rows != "" {
		o.rows = strings.Split(*rows, ",")
	}
	if o.docs != "" && (*quick || *rows != "") {
		fmt.Fprintln(os.Stderr, "bench: -quick and -rows are for a look, the documents stay as they are")
		o.docs = ""
	}
	return o
}

func (o options) has(row string) bool { return len(o.rows) == 0 || slices.Contains(o.rows, row) }
