package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
nothing; 1: something, or it cannot be read; 2: usage. What is meant so is said to nginx by "auth_request off;".`
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
		headers = policyOf(set).headers()
	}
	conf, err := nginx.Read(f.Conf)
	if err != nil {
		return fmt.Errorf("lint: %w", err)
	}
	found := lint(conf, headers)
	if f.JSON {
		err = writeJSON(c, append([]finding{}, found...))
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

// A level is http{}, a server{} or a location{}: what a directive is inherited from.
type level struct {
	*nginx.Directive
	up     *level
	server *level
	below  []*level
}

// own are the directives of a name that stand in the level itself.
func (l *level) own(name string) (all []*nginx.Directive) {
	for _, d := range l.Block {
		if d.Name() == name {
			all = append(all, d)
		}
	}
	return all
}

// inForce are those of the nearest level that has any, as nginx inherits most directives: all or none.
func (l *level) inForce(name string) []*nginx.Directive {
	for ; l != nil; l = l.up {
		if all := l.own(name); len(all) > 0 {
			return all
		}
	}
	return nil
}

// arg is the first argument of the directive in force, or a default.
func (l *level) arg(name, byDefault string) string {
	if all := l.inForce(name); len(all) > 0 && len(all[0].Words) > 1 {
		return all[0].Words[1]
	}
	return byDefault
}

// isHidden says whether the level is a location that clients cannot ask for.
func (l *level) isHidden() bool {
	return l.Name() == "location" && (strings.HasPrefix(l.Words[len(l.Words)-1], "@") || len(l.own("internal")) > 0)
}

// String is how the level is written.
func (l *level) String() string { return strings.Join(l.Words, " ") }

// levelsOf are all servers and locations.
func levelsOf(conf []*nginx.Directive) (all []*level) {
	var add func(d *nginx.Directive, up *level)
	add = func(d *nginx.Directive, up *level) {
		l := &level{Directive: d, up: up}
		if up != nil {
			l.server = up.server
			up.below = append(up.below, l)
		}
		if d.Name() == "server" {
			l.server = l
		}
		if d.Name() != "http" {
			all = append(all, l)
		}
		for _, inner := range d.Block {
			if inner.Block != nil && (inner.Name() == "server" || inner.Name() == "location" && len(inner.Words) > 1) {
				add(inner, l)
			}
		}
	}
	for _, d := range conf {
		if d.Name() == "http" && d.Block != nil {
			add(d, nil)
		}
	}
	return all
}

// A linter collects what is found, each thing once.
type linter struct {
	conf    []*nginx.Directive
	levels  []*level
	headers []string // that limits read
	found   []finding
}

func (w *linter) add(at *nginx.Directive, format string, a ...any) {
	f := finding{at.File, at.Line, fmt.Sprintf(format, a...)}
	if !slices.Contains(w.found, f) {
		w.found = append(w.found, f)
	}
}

// lint says what is wrong with a configuration. headers are those that limits read, nil if that is not known.
func lint(conf []*nginx.Directive, headers []string) []finding {
	w := &linter{conf: conf, levels: levelsOf(conf), headers: headers}
	for _, l := range w.levels {
		w.client(l)
		w.refusalHeaders(l)
		w.limitReq(l)
		if check := w.check(l); check != nil {
			w.bypasses(l, check)
			if check.isOurs() {
				w.answers(l)
				w.checkLocation(check)
			}
		}
	}
	slices.SortStableFunc(w.found, func(a, b finding) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	return w.found
}

// check is the location that decides about the requests of a level, nil if none does.
func (w *linter) check(l *level) *level {
	uri := l.arg("auth_request", "off")
	if uri == "off" || l.isHidden() {
		return nil
	}
	var best *level
	for _, one := range l.server.below {
		args := one.Args()
		at := args[len(args)-1]
		switch {
		case args[0] == "=" && at == uri:
			return one
		case args[0] != "=" && !strings.HasPrefix(args[0], "~") && strings.HasPrefix(uri, at) && (best == nil || len(at) > len(best.Words[len(best.Words)-1])):
			best = one
		}
	}
	return best
}

// isOurs says whether the check asks authz: at /nginx.
func (l *level) isOurs() bool {
	for _, pass := range l.own("proxy_pass") {
		if len(pass.Words) > 1 {
			_, path, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(pass.Words[1], "http://"), "unix:"), "/")
			if _, after, isUnix := strings.Cut(path, ":/"); isUnix {
				path = after
			}
			if routeOf([]byte("/"+path)) >= 0 {
				return true
			}
		}
	}
	return false
}
