package lint

import (
	"strings"
)

// postponed looks for access rules of nginx's own that answer before authz.access() and keep requests from being counted.
func (w *linter) postponed(l *level) {
	if l.arg("access_by_lua_no_postpone", "off") == "on" {
		return
	}
	w.satisfyAny(l, "auth_request")
	for _, name := range []string{"auth_basic", "auth_request", "deny"} {
		if l.arg(name, "off") != "off" && l.arg("satisfy", "all") == "all" {
			w.add(l.inForce(name)[0], "%s answers before authz.access(), which does not count what it refuses; want access_by_lua_no_postpone on; in http{}", name)
		}
	}
}

// zoneOfMethods looks for a zone that limit_except drops: nginx runs no set of the location for the methods that it is for.
func (w *linter) zoneOfMethods(l *level) {
	if l.Name() != "location" || l.hasLua("rewrite_by_lua_block") {
		return
	}
	d, _ := l.lua()
	if d != nil && strings.Contains(d.Lua, "zone") {
		return // authz.access{zone = "…"}
	}
	for _, set := range l.own("set") {
		if except := l.own("limit_except"); set.Words[1] == "$authz_zone" && len(except) > 0 {
			w.add(except[0], "limit_except drops set $authz_zone in %s: its requests have no zone; want access_by_lua_block { authz.access{zone = \"…\"} } there, or no limit_except", l)
		}
	}
}
