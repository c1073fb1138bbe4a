package main

import (
	"fmt"

	"authz/internal/human"
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
	fmt.Fprintf(c.out, "good: %s, %s, %s, %s", human.Count(len(set.Limits()), "limit"), human.Count(len(set.Rules(limits.Allow)), "allow rule"),
		human.Count(len(set.Rules(limits.Deny)), "deny rule"), human.Count(set.Overrides(), "override"))
	if n := set.Schedules(); n > 0 {
		fmt.Fprintf(c.out, ", %s", human.Count(n, "schedule"))
	}
	fmt.Fprintln(c.out)
	for _, r := range set.Reads() {
		if r.Verdict == limits.Allow && len(r.Reads) == 0 {
			fmt.Fprintf(c.out, "allow.%s has no match: it lets every request past every limit\n", r.Name)
		}
	}
	return nil
}
