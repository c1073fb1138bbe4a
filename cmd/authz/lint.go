package main

import (
	"errors"
	"fmt"
	"slices"

	"authz/internal/plainjson"
	"authz/limits"
	"authz/nginx"
	"authz/nginx/lint"
)

type lintCmd struct {
	Conf   string   `arg:"" name:"nginx.conf" help:"nginx's configuration; what it includes is read, relative to its folder."`
	Limits []string `help:"Limits file, or folder of *.toml, whose headers the check has to be handed; may be repeated." sep:"none" placeholder:"FILE|DIR"`
	JSON   bool     `name:"json" help:"Write the findings as JSON."`
}

// Help is what --help says beside the flags.
func (*lintCmd) Help() string {
	return `Reads a configuration as nginx does, and says what in it bypasses a check or spoils its answer, a line each. Exit code 0:
nothing; 1: something, or it cannot be read; 2: usage. What is meant so is said to nginx by "auth_request off;", or
"access_by_lua_block { }" where the OpenResty pack decides.`
}

// Run says what is wrong.
func (f *lintCmd) Run(c *console) error {
	var headers []string
	if len(f.Limits) > 0 {
		set, err := c.loadLimits("authz", f.Limits)
		if err != nil {
			return err
		}
		headers = set.ReadHeaders()
		for kind, header := range map[limits.ReadKind]string{limits.ReadHost: "x-original-host", limits.ReadZone: "x-authz-zone"} {
			if set.ReadsKind(kind) && !slices.Contains(headers, header) {
				headers = append(headers, header)
			}
		}
		slices.Sort(headers)
	}
	conf, err := nginx.Read(f.Conf)
	if err == nil && !slices.ContainsFunc(conf, func(d *nginx.Directive) bool { return d.Name() == "http" }) {
		err = errors.New(f.Conf + ": no http{} in it, want the nginx.conf that includes it")
	}
	if err != nil {
		return fmt.Errorf("lint: %w", err)
	}
	found := lint.Lint(conf, headers)
	if f.JSON {
		err = plainjson.NewEncoder(c.out).Encode(append([]lint.Finding{}, found...))
	} else {
		for _, w := range found {
			fmt.Fprintf(c.out, "%s:%d: %s\n", w.File, w.Line, w.What)
		}
	}
	if err == nil && len(found) > 0 {
		err = exit(1)
	}
	return err
}
