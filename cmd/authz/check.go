package main

import (
	"fmt"

	"authz/limits"
)

type checkCmd struct {
	Paths []string `arg:"" name:"path" help:"Limits files, or folders of *.toml, that are one set."`
}

// Run says all that is wrong, a line each.
func (f *checkCmd) Run(c *console) error {
	set, err := limits.Load("authz", f.Paths...)
	if err != nil {
		fmt.Fprintln(c.err, err)
		return exit(1)
	}
	fmt.Fprintf(c.out, "good: %d limits\n", len(set.Limits()))
	return nil
}
