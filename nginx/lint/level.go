package lint

import (
	"regexp"
	"slices"
	"strings"

	"authz/internal/route"
	"authz/nginx"
)

// A level is http{}, a server{} or a location{}: what a directive is inherited from.
type level struct {
	*nginx.Directive
	up     *level
	server *level // nil above servers
	below  []*level
}

// levelsOf are all of http{}, the upper before the lower.
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
		all = append(all, l)
		for _, inner := range d.Block {
			isServer := up == nil && inner.Name() == "server"
			isLocation := up != nil && inner.Name() == "location" && len(inner.Words) > 1
			if inner.Block != nil && (isServer || isLocation) {
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

// own are the directives of a name that stand in the level itself.
func (l *level) own(name string) []*nginx.Directive { return named(l.Block, name) }

func named(block []*nginx.Directive, name string) (all []*nginx.Directive) {
	for _, d := range block {
		if d.Name() == name && len(d.Words) > 1 {
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
	if all := l.inForce(name); len(all) > 0 {
		return all[0].Words[1]
	}
	return byDefault
}

// isHidden says whether the level is a location that clients cannot ask for.
func (l *level) isHidden() bool {
	_, path := l.pattern()
	return strings.HasPrefix(path, "@") || slices.ContainsFunc(l.Block, func(d *nginx.Directive) bool { return d.Name() == "internal" })
}

// String is how the level is written.
func (l *level) String() string { return strings.Join(l.Words, " ") }

// pattern is what requests a location is for: "=", "^~", "~", "~*" or nothing, and a path. nginx needs no blank between.
func (l *level) pattern() (modifier, path string) {
	if l.Name() != "location" {
		return "", ""
	}
	path = l.Words[len(l.Words)-1]
	if len(l.Words) > 2 {
		return l.Words[1], path
	}
	for _, modifier := range []string{"=", "^~", "~*", "~"} {
		if rest, ok := strings.CutPrefix(path, modifier); ok {
			return modifier, rest
		}
	}
	return "", path
}

// meets is the location that nginx finds for a path: an exact one, else the longest beginning, and what is nested in it,
// else the first regular expression. One that Go cannot read meets nothing.
func (l *level) meets(path string) *level {
	var longest *level
	most := -1
	for _, one := range l.below {
		modifier, text := one.pattern()
		switch {
		case modifier == "=" && text == path:
			return one
		case (modifier == "" || modifier == "^~") && strings.HasPrefix(path, text) && len(text) > most:
			longest, most = one, len(text)
		}
	}
	if longest != nil {
		if inner := longest.meets(path); inner != nil {
			return inner
		}
		if modifier, _ := longest.pattern(); modifier == "^~" {
			return longest
		}
	}
	for _, one := range l.below {
		if modifier, text := one.pattern(); modifier == "~" && meets(text, path) || modifier == "~*" && meets("(?i)"+text, path) {
			return one
		}
	}
	return longest
}

func meets(expression, path string) bool {
	re, err := regexp.Compile(expression)
	return err == nil && re.MatchString(path)
}

// namedLocation is the location @NAME of the level's server, nil if there is none.
func (l *level) namedLocation(name string) *level {
	for _, one := range l.server.below {
		if _, path := one.pattern(); path == name {
			return one
		}
	}
	return nil
}

// check is the location that decides about the requests of a level, nil if none does.
func (l *level) check() *level {
	uri := l.arg("auth_request", "off")
	if l.server == nil || uri == "off" {
		return nil
	}
	return l.server.meets(uri)
}

// isOurs says whether the check asks authz, at one of its routes. No check does not.
func (l *level) isOurs() bool {
	asked, _ := l.asks()
	return asked != nil
}

// asks is the route that the check asks, nil if it asks none, and the URL with that route.
func (l *level) asks() (*route.Route, string) {
	if l == nil {
		return nil, ""
	}
	for _, pass := range l.own("proxy_pass") {
		_, path := l.upstreamOf(pass)
		if at := route.IndexOf([]byte(path)); at >= 0 {
			return &route.All[at], path
		}
	}
	return nil, ""
}

// sends are the headers that nginx sets in a check, by their names in lower case.
func (l *level) sends() map[string]string {
	sent := map[string]string{}
	for _, d := range l.inForce("proxy_set_header") {
		if len(d.Words) == 3 {
			sent[strings.ToLower(d.Words[1])] = d.Words[2]
		}
	}
	return sent
}

// upstreamOf is whom a proxy_pass of the level asks, and for what. What is in a variable may stand in a set beside it.
func (l *level) upstreamOf(pass *nginx.Directive) (name, path string) {
	rest := pass.Words[1]
	for _, set := range l.own("set") {
		if set.Words[1] == rest && len(set.Words) > 2 {
			rest = set.Words[2]
		}
	}
	rest = strings.TrimPrefix(rest, "http://")
	if socket, ok := strings.CutPrefix(rest, "unix:"); ok {
		socket, path, _ = strings.Cut(socket, ":")
		return "unix:" + socket, path
	}
	if at := strings.IndexByte(rest, '/'); at >= 0 {
		return rest[:at], rest[at:]
	}
	return rest, ""
}

// each calls f with the directives of a level, those in if{} too, but not those of locations.
func each(block []*nginx.Directive, f func(*nginx.Directive)) {
	for _, d := range block {
		f(d)
		if d.Name() == "if" {
			each(d.Block, f)
		}
	}
}
