package limits

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Errors is everything that is wrong with a set of limits files, a sentence each, in the order of the
// files and their lines: "limits.toml:12: limit.login: burst = 0, want 1 to 9007199254740991".
type Errors []string

func (e Errors) Error() string { return strings.Join(e, "\n") }

// Load reads limits files, and the *.toml files of folders, as one set. Every Redis key will begin
// with keyPrefix ("authz"). An error is of type Errors and complete, and then there is no set.
func Load(keyPrefix string, paths ...string) (*Set, error) {
	sp, errs := parse(keyPrefix, paths)
	if errs != nil {
		return nil, errs
	}
	return compile(sp), nil
}

// A parser holds what has been read so far. Numbers need the defaults, overrides and schedules their
// limit, wherever they stand; so tables are gathered from all files first and read kind by kind.
type parser struct {
	spec     spec
	onError  OnError // of limits that do not say
	problems []problem
	left     int // problems that were left out
	room     room
	blind    bool // a file could not be read: what seems to be absent may stand in it

	defaults  []*table
	rules     []*table // limit, allow and deny
	overrides []*table
	schedules []*table
	drafts    map[string]*draft // limits by name
}

// A problem is a line of Errors and where it belongs.
type problem struct {
	file, line int
	text       string
}

func parse(keyPrefix string, paths []string) (*spec, Errors) {
	p := &parser{drafts: map[string]*draft{}}
	p.spec.keyPrefix = keyPrefix
	if !goodPrefix(keyPrefix) {
		p.report(-1, 0, fmt.Sprintf("redis prefix %q, want 1 to 64 of A-Z a-z 0-9 . _ ~ : / @ + - =", keyPrefix))
	}
	if len(paths) == 0 {
		p.report(-1, 0, "no limits file is named, want at least one file or folder")
	}
	p.gatherAll(paths)
	p.readDefaults()
	p.readRules()
	p.readOverrides()
	p.readSchedules()
	p.sort()
	if len(p.problems) == 0 && len(p.rules) == 0 {
		// Such a file is a truncated one more often than a wish for no limits.
		p.report(-1, 0, strings.Join(paths, ", ")+": no rules, want at least one [limit.NAME], [allow.NAME] or [deny.NAME]")
	}
	if len(p.problems) == 0 {
		whole := p.spec // a pointer into the parser would keep all that it has read
		return &whole, nil
	}
	slices.SortFunc(p.problems, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.text, b.text))
	})
	errs := make(Errors, len(p.problems))
	for i := range p.problems {
		errs[i] = p.problems[i].text
	}
	if p.left > 0 {
		errs = append(errs, fmt.Sprintf("and %d more errors", p.left))
	}
	return nil, errs
}

// mostProblems is how many errors are reported in full.
const mostProblems = 10_000

func (p *parser) report(file, line int, text string) {
	if len(p.problems) == mostProblems {
		p.left++
		return
	}
	p.problems = append(p.problems, problem{file, line, text})
}

// goodPrefix keeps braces out, which mark the hash tag of a key, and all that keys escape.
func goodPrefix(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isNameByte(c) && !strings.ContainsRune(".~:/@+=", rune(c)) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

// Files names the files that Load reads of these paths, in its order. What cannot be read is left out,
// except a path itself.
func Files(paths ...string) []string {
	var names []string
	for _, path := range paths {
		inside, _ := filesOf(path)
		names = append(names, inside...)
	}
	return names
}

// filesOf names the path itself, or the files in a folder, by name and without hidden ones (an editor's
// lock is no limits file).
func filesOf(path string) ([]string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return []string{path}, nil // gather says what is wrong with it
	}
	inside, err := os.ReadDir(path)
	var names []string
	for _, entry := range inside {
		if name := entry.Name(); filepath.Ext(name) == ".toml" && name[0] != '.' {
			names = append(names, filepath.Join(path, name))
		}
	}
	return names, err
}

// gatherAll reads all files.
func (p *parser) gatherAll(paths []string) {
	var all []string
	for _, path := range paths {
		names, err := filesOf(path)
		switch {
		case err != nil:
			p.cannotRead(len(all), path, err)
		case len(names) == 0:
			p.report(len(all), 0, path+": no *.toml in this folder, want at least one limits file")
		}
		all = append(all, names...)
	}
	for order, name := range all {
		if err := p.room.announce(name); err != nil {
			p.cannotRead(order, name, err)
			return
		}
	}
	for order, name := range all {
		p.gather(order, name)
	}
}

// gather reads a file and sorts its tables.
func (p *parser) gather(order int, name string) {
	text, err := p.room.read(name)
	if err != nil {
		p.cannotRead(order, name, err)
		return
	}
	f, line, err := decode(order, name, text, &p.room)
	if err != nil {
		p.blind = true
		p.report(order, line, fmt.Sprintf("%s:%d: %s", name, line, err))
		return
	}
	top := &table{p: p, file: f, values: f.values()}
	for _, kind := range slices.Sorted(maps.Keys(top.values)) {
		switch kind {
		case "defaults":
			if t, ok := top.sub(kind, "[defaults]", kind); ok {
				p.defaults = append(p.defaults, t)
			}
		case "limit", "allow", "deny":
			p.rules = append(p.rules, top.named(kind)...)
		case "override":
			for _, t := range top.named(kind) {
				p.gatherOverrides(t)
			}
		case "schedule":
			for _, t := range top.named(kind) {
				p.gatherSchedules(t)
			}
		default:
			if slices.Contains(defaultKeys, kind) {
				top.problem(kind, "unknown key %s, want it in [defaults]", kind)
				continue
			}
			top.unknown(kind, "allow", "defaults", "deny", "limit", "override", "schedule")
		}
	}
}

func (p *parser) cannotRead(order int, name string, err error) {
	p.blind = true
	switch err {
	case errIrregular:
		p.report(order, 0, name+": not a regular file, want a limits file")
		return
	case errTooLarge:
		p.report(order, 0, name+": "+err.Error())
		return
	}
	if inner, ok := err.(*os.PathError); ok {
		err = inner.Err
	}
	p.report(order, 0, fmt.Sprintf("%s: %s, want a limits file or a folder with *.toml files", name, err))
}

// named returns the tables [kind.NAME] that have a good name.
func (t *table) named(kind string) []*table {
	all, ok := t.sub(kind, fmt.Sprintf("a table for each name: [%s.NAME]", kind), kind)
	if !ok {
		return nil
	}
	var tables []*table
	for _, name := range slices.Sorted(maps.Keys(all.values)) {
		title := kind + "." + quoteKey(name)
		one, ok := all.sub(name, fmt.Sprintf("a table [%s]", title), title)
		switch {
		case !ok:
		case !goodName(name):
			one.complain("a name of other bytes or length, want 1 to 64 of A-Z a-z 0-9 _ -")
		default:
			tables = append(tables, one)
		}
	}
	return tables
}

func goodName(s string) bool {
	for i := range len(s) {
		if !isNameByte(s[i]) {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 64
}

func isNameByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}
