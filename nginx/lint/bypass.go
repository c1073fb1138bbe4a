package lint

import (
	"regexp"
	"slices"
	"strings"

	"authz/nginx"
)

// bypasses looks for what answers a request of the level before or without its check.
func (w *linter) bypasses(l, check *level) {
	if check.isOurs() { // a login may be meant to be one of several
		w.satisfyAny(l, "access_by_lua_block", "access_by_lua_file")
	}
	w.answered(l, check, "auth_request off;")
	if _, path := check.pattern(); path == "/" {
		w.add(l.inForce("auth_request")[0], "auth_request %s is answered by %s like what a client asks for, and admits with it; want location = %s { internal; … }", l.arg("auth_request", ""), check, l.arg("auth_request", ""))
		return
	}
	if !check.isHidden() {
		w.add(check.Directive, "%s: the check can be asked for by anybody; want internal; in it", check)
	}
	if cached := check.inForce("proxy_cache"); len(cached) > 0 && cached[0].Words[1] != "off" {
		why := "only Cache-Control: no-store keeps its answers from others"
		if ignored := check.inForce("proxy_ignore_headers"); len(ignored) > 0 && slices.Contains(ignored[0].Args(), "Cache-Control") {
			why = "its answers are given again to others"
		}
		w.add(cached[0], "proxy_cache %s for the check: %s; want proxy_cache off; in %s", cached[0].Words[1], why, check)
	}
	if l.Name() == "server" {
		w.rewrites(l, check)
	}
}

// satisfyAny looks for other access rules, of which one is enough.
func (w *linter) satisfyAny(l *level, others ...string) {
	if l.arg("satisfy", "all") != "any" {
		return
	}
	for _, name := range append([]string{"allow", "deny", "auth_basic", "auth_jwt"}, others...) {
		if l.arg(name, "off") != "off" || l.hasLua(name) {
			w.add(l.inForce("satisfy")[0], "satisfy any: who is let in by allow or a password is not checked, and who is admitted passes deny; want satisfy all")
		}
	}
}

// answered looks for what answers in the rewrite phase, in which no check has been yet. A refusal there lets nobody pass.
func (w *linter) answered(l, check *level, meant string) {
	if l == check {
		return
	}
	if l.Name() == "server" {
		for _, d := range l.own("return") {
			w.add(d, "return in server{} answers before the check, which never happens; want it in a location")
		}
		each(l.Block, func(d *nginx.Directive) {
			if d.Name() == "return" && returnStatus(d) < 300 && !slices.Contains(l.Block, d) {
				w.add(d, "return in an if of server{} answers before the check, which never happens; want it in a location")
			}
		})
		return
	}
	each(l.Block, func(d *nginx.Directive) {
		if d.Name() == "return" && returnStatus(d) < 400 || isRedirect(d) {
			w.add(d, "%s in %s answers before the check, which never happens; want %s there if that is meant", d.Name(), l, meant)
		}
	})
}

// returnStatus is what a return answers: 302 if it has a URL alone.
func returnStatus(d *nginx.Directive) int {
	status := 0
	if len(d.Words) > 1 && len(d.Words[1]) == 3 {
		for _, c := range d.Words[1] {
			if c < '0' || c > '9' {
				return 302
			}
			status = 10*status + int(c-'0')
		}
		return status
	}
	return 302
}

// isRedirect says whether a rewrite answers by itself.
func isRedirect(d *nginx.Directive) bool {
	if d.Name() != "rewrite" || len(d.Words) < 3 {
		return false
	}
	for _, scheme := range []string{"http://", "https://", "$scheme"} {
		if strings.HasPrefix(d.Words[2], scheme) {
			return true
		}
	}
	return slices.Contains(d.Words[3:], "redirect") || slices.Contains(d.Words[3:], "permanent")
}

// rewrites looks for what a server does to the check itself: its rewrites run again for that.
func (w *linter) rewrites(l, check *level) {
	uri := l.arg("auth_request", "")
	for _, d := range l.Block {
		if isGuard(d, uri) {
			return // what follows is not run for the check
		}
		if d.Name() != "rewrite" && d.Name() != "if" {
			continue
		}
		each([]*nginx.Directive{d}, func(inner *nginx.Directive) {
			if inner.Name() == "rewrite" && len(inner.Words) > 2 && mayMeet(inner.Words[1], uri) {
				w.add(inner, "rewrite before the check's own break catches %s, and what it makes of that answers for the check; want it below the include, or in a location", uri)
			}
		})
	}
}

// mayMeet says whether an expression meets a path, or Go cannot tell.
func mayMeet(expression, path string) bool {
	re, err := regexp.Compile(expression)
	return err != nil || re.MatchString(path)
}

// isGuard says whether a directive is if ($uri = URI) { break; }.
func isGuard(d *nginx.Directive, uri string) bool {
	condition := strings.Fields(strings.Trim(strings.Join(d.Args(), " "), "() "))
	return d.Name() == "if" && slices.Equal(condition, []string{"$uri", "=", uri}) &&
		slices.ContainsFunc(d.Block, func(d *nginx.Directive) bool { return d.Name() == "break" })
}

var asksPack = regexp.MustCompile(`\bauthz\s*[.:]\s*(access|check)\s*[({]`)

// hasLua says whether a directive of that name with a block of Lua is in force.
func (l *level) hasLua(name string) bool {
	for ; l != nil; l = l.up {
		for _, d := range l.Block {
			if d.Name() == name {
				return strings.TrimSpace(d.Lua) != ""
			}
		}
	}
	return false
}

// lua is the code that decides in the access phase, and the level that has it.
func (l *level) lua() (d *nginx.Directive, at *level) {
	for ; l != nil; l = l.up {
		for _, d := range l.Block {
			if d.Name() == "access_by_lua_block" || d.Name() == "access_by_lua_file" {
				return d, l
			}
		}
	}
	return nil, nil
}

// pack looks for the same where the OpenResty pack decides. An empty block says that no check is meant.
func (w *linter) pack(l *level) {
	d, at := l.lua()
	switch {
	case d == nil || l.server == nil:
	case asksPack.MatchString(d.Lua):
		w.unixClients(l)
		w.postponed(l)
		w.answered(l, nil, "access_by_lua_block { }")
	case at == l && d.Name() == "access_by_lua_block" && strings.TrimSpace(d.Lua) != "":
		if above, up := l.up.lua(); above != nil && asksPack.MatchString(above.Lua) {
			w.add(d, "access_by_lua_block in %s replaces that of %s, and authz.access() does not run; want it there too, as the last thing", l, up)
		}
	}
}
