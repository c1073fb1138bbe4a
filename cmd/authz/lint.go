package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"authz/limits"
	"authz/nginx"
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

// A finding is one thing that is wrong, and what would be right.
type finding struct {
	File string `json:"file"`
	Line int    `json:"line"`
	What string `json:"what"`
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
	found := lint(conf, headers)
	if f.JSON {
		err = newJSON(c.out).Encode(append([]finding{}, found...))
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

// A linter collects what is found, each thing once.
type linter struct {
	conf    []*nginx.Directive
	levels  []*level
	headers []string // that limits read
	found   []finding
	isFound map[finding]bool
}

func (w *linter) add(at *nginx.Directive, format string, a ...any) {
	f := finding{at.File, at.Line, fmt.Sprintf(format, a...)}
	if !w.isFound[f] {
		w.isFound[f] = true
		w.found = append(w.found, f)
	}
}

// lint says what is wrong with a configuration. headers are those that limits read, nil if that is not known.
func lint(conf []*nginx.Directive, headers []string) []finding {
	w := &linter{conf: conf, levels: levelsOf(conf), headers: headers, isFound: map[finding]bool{}}
	w.zoneKeys()
	for _, l := range w.levels {
		w.client(l)
		w.refusalHeaders(l)
		w.limitReq(l)
		w.zoneOfMethods(l)
		if l.Name() == "http" || l.isHidden() {
			continue
		}
		w.pack(l)
		check := l.check()
		if check == nil {
			continue
		}
		w.bypasses(l, check)
		switch {
		case check.isOurs():
			w.refusals(l, check)
			w.drops(l)
			w.twice(l, check)
			w.checkLocation(check)
			if check.sends()["x-real-ip"] == "$remote_addr" {
				w.unixClients(l)
			}
		case l.up.check().isOurs():
			w.add(l.own("auth_request")[0], "auth_request in %s is asked instead of that of %s, and authz is not; want it in an inner server{} to which this one passes the request", l, l.up)
		}
	}
	slices.SortStableFunc(w.found, func(a, b finding) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return w.found
}
