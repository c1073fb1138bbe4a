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
	set, err := c.loadLimits("authz", f.Paths)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "good: %s, %s, %s, %s", count(len(set.Limits()), "limit"), count(len(set.Rules(limits.Allow)), "allow rule"),
		count(len(set.Rules(limits.Deny)), "deny rule"), count(set.Overrides(), "override"))
	if n := set.Schedules(); n > 0 {
		fmt.Fprintf(c.out, ", %s", count(n, "schedule"))
	}
	fmt.Fprintln(c.out)
	return nil
}

// count is "1 limit" or "2 limits".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}
