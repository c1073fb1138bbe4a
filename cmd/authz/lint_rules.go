package main

import (
	"slices"
	"strings"

	"authz/nginx"
)

// client looks at how the client's address is known.
func (w *linter) client(l *level) {
	for _, d := range l.own("real_ip_header") {
		if len(l.inForce("set_real_ip_from")) == 0 {
			w.add(d, "real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy")
		}
	}
	if l.Name() == "server" {
		if d := l.up.own("real_ip_header"); len(d) > 0 && len(l.inForce("set_real_ip_from")) == 0 {
			w.add(d[0], "real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy")
		}
	}
}

// ours are the headers of a refusal, in lower case.
var ours = []string{"retry-after", "ratelimit", "ratelimit-policy", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-authz-limit"}

// refusalHeaders looks for headers of a refusal that do not come with one.
func (w *linter) refusalHeaders(l *level) {
	each(l.Block, func(d *nginx.Directive) {
		if d.Name() == "add_header" && len(d.Words) > 2 && slices.Contains(ours, strings.ToLower(d.Words[1])) && !slices.Contains(d.Words, "always") {
			w.add(d, "add_header %s without always: a 429 does not have it; want always at its end", d.Words[1])
		}
	})
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

// limitReq looks for what nginx's own limiter does not mean.
func (w *linter) limitReq(l *level) {
	for _, d := range l.own("limit_req") {
		burst, delay := number(d, "burst="), number(d, "delay=")
		if delay > 0 && delay >= burst {
			w.add(d, "delay=%d is no less than burst=%d: nothing is ever delayed; want nodelay, if that is meant", delay, burst)
		}
	}
}

// number is that of an argument such as burst=12, -1 if there is none.
func number(d *nginx.Directive, name string) int {
	for _, arg := range d.Args() {
		if text, ok := strings.CutPrefix(arg, name); ok {
			n := 0
			for _, c := range text {
				if c < '0' || c > '9' || n > 1<<30 {
					return -1
				}
				n = 10*n + int(c-'0')
			}
			return n
		}
	}
	return -1
}

// bypasses looks for what answers a request of the level before or without its check.
func (w *linter) bypasses(l, check *level) {
	if any := l.inForce("satisfy"); len(any) > 0 && slices.Equal(any[0].Args(), []string{"any"}) {
		if len(l.inForce("allow"))+len(l.inForce("deny"))+len(l.inForce("auth_basic")) > 0 {
			w.add(any[0], "satisfy any: who is let in by allow or a password is not checked, and who is admitted passes deny; want satisfy all")
		}
	}
	if len(check.own("internal")) == 0 {
		w.add(check.Directive, "%s: the check can be asked for by anybody; want internal; in it", check)
	}
	if cached := check.inForce("proxy_cache"); len(cached) > 0 && !slices.Equal(cached[0].Args(), []string{"off"}) {
		w.add(cached[0], "proxy_cache %s for the check: its answers are given again to others; want proxy_cache off; in %s", cached[0].Words[1], check)
	}
	if l.Name() == "server" {
		w.rewrites(l, check)
		return
	}
	each(l.Block, func(d *nginx.Directive) {
		if d.Name() == "return" && l != check {
			w.add(d, "return in %s answers before the check, which never happens; want auth_request off; there if that is meant", l)
		}
	})
}

// rewrites looks for what a server does to the check itself: its rewrites run again for that.
func (w *linter) rewrites(l, check *level) {
	uri := l.arg("auth_request", "")
	for _, d := range l.Block {
		switch {
		case d.Name() == "if" && slices.Equal(d.Args(), []string{"($uri", "=", uri + ")"}) && slices.ContainsFunc(d.Block, func(d *nginx.Directive) bool { return d.Name() == "break" }):
			return // what follows is not run for the check
		case d.Name() == "return":
			w.add(d, "return in server{} answers before the check, which never happens; want it in a location")
		case d.Name() == "rewrite" && len(d.Words) > 1, d.Name() == "if" && slices.ContainsFunc(d.Block, func(d *nginx.Directive) bool { return d.Name() == "rewrite" }):
			w.add(d, "%s before the check's own break: where it catches %s, every request passes unchecked; want it below the include, or in a location", d.Name(), uri)
		}
	}
}

// answers looks at what becomes of a refusal in a level, and of our headers.
func (w *linter) answers(l *level) {
	all := l.inForce("error_page")
	if !slices.ContainsFunc(all, func(d *nginx.Directive) bool { return slices.Contains(d.Args(), "403") }) {
		if own := l.own("error_page"); len(own) > 0 {
			w.add(own[0], "error_page in %s drops those of the server: a limited client sees a 403; want error_page 403 = @authz_denied; there too", l)
		} else {
			w.add(l.Directive, "no error_page 403 for %s: a limited client sees a 403; want error_page 403 = @authz_denied;", l)
		}
	}
	if l.Name() == "server" {
		return
	}
	drops := l.own("add_header")
	if len(drops) == 0 || slices.ContainsFunc(drops, isOurs) {
		return
	}
	for up := l.up; up != nil; up = up.up {
		if theirs := up.own("add_header"); len(theirs) > 0 {
			if slices.ContainsFunc(theirs, isOurs) {
				w.add(drops[0], "add_header in %s drops those of %s, RateLimit among them; want include authz/authz_ratelimit.conf; there too", l, up)
			}
			return
		}
	}
}

func isOurs(d *nginx.Directive) bool {
	return len(d.Words) > 1 && slices.Contains(ours, strings.ToLower(d.Words[1]))
}

// checkLocation looks at the location that asks authz.
func (w *linter) checkLocation(l *level) {
	at := l.Directive
	pass := l.own("proxy_pass")[0]
	sent := map[string]string{}
	for _, d := range l.inForce("proxy_set_header") {
		if len(d.Words) == 3 {
			sent[strings.ToLower(d.Words[1])] = d.Words[2]
		}
	}
	has := func(name string) bool { return sent[name] != "" }
	if !has("x-original-method") {
		w.add(at, "%s sends no X-Original-Method: authz blocks what has none; want proxy_set_header X-Original-Method $request_method;", l)
	}
	if !has("x-original-uri") && !has("x-original-url") {
		w.add(at, "%s sends no X-Original-URI: authz blocks what has none; want proxy_set_header X-Original-URI $request_uri;", l)
	}
	if !has("x-real-ip") && !has("x-forwarded-for") {
		w.add(at, "%s sends no X-Real-IP: every client is nginx to authz; want proxy_set_header X-Real-IP $remote_addr;", l)
	}
	w.body(l, at, sent)
	w.forwards(l, at, sent)
	w.keepalive(l, pass, sent)
	w.times(l, pass)
}

func (w *linter) body(l *level, at *nginx.Directive, sent map[string]string) {
	if l.arg("proxy_pass_request_body", "on") != "off" {
		w.add(at, "%s: the body is handed to the check; want proxy_pass_request_body off;", l)
	}
	if length, ok := sent["content-length"]; !ok || length != "" {
		w.add(at, `%s hands on Content-Length without a body: a POST waits for it; want proxy_set_header Content-Length "";`, l)
	}
	if l.arg("client_max_body_size", "1m") != "0" {
		w.add(at, "%s: an upload larger than client_max_body_size is refused by the check; want client_max_body_size 0; there", l)
	}
}

// forwards looks for headers that limits read and the check is not handed.
func (w *linter) forwards(l *level, at *nginx.Directive, sent map[string]string) {
	all := l.arg("proxy_pass_request_headers", "on") != "off"
	if all {
		w.add(at, "%s hands on all that the client sent: 64 KB of it are too much, and it may say what only nginx should; want proxy_pass_request_headers off;", l)
	}
	for _, name := range w.headers {
		if _, ok := sent[name]; !ok && !all {
			w.add(at, "%s does not hand on %s, which a limit reads; want proxy_set_header %s $http_%s;", l, canonical(name), canonical(name), strings.ReplaceAll(name, "-", "_"))
		}
	}
}

// keepalive looks for why each check costs a connection.
func (w *linter) keepalive(l *level, pass *nginx.Directive, sent map[string]string) {
	if l.arg("proxy_http_version", "1.0") != "1.1" {
		w.add(l.Directive, "%s asks by HTTP/1.0, a new connection each time; want proxy_http_version 1.1;", l)
	}
	if value, ok := sent["connection"]; !ok || value != "" {
		w.add(l.Directive, `%s sends Connection: %s, a new connection each time; want proxy_set_header Connection "";`, l, map[bool]string{true: value, false: "close"}[ok])
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(pass.Words[1], "http://"), "/")
	upstream := w.upstream(name)
	switch {
	case upstream == nil && !strings.Contains(name, "$"):
		w.add(pass, "proxy_pass to %s without an upstream{} with keepalive: each check costs a connection; want upstream authz { server %s; keepalive 64; }", name, name)
	case upstream != nil && len((&level{Directive: upstream}).own("keepalive")) == 0:
		w.add(upstream, "upstream %s without keepalive: each check costs a connection; want keepalive 64;", name)
	case upstream != nil && len((&level{Directive: upstream}).own("server")) > 1 && slices.Contains(nextUpstream(l), "timeout"):
		w.add(l.Directive, "%s asks another instance after a timeout, and the request is charged twice; want proxy_next_upstream error;", l)
	}
}

// nextUpstream is after what nginx asks another server.
func nextUpstream(l *level) []string {
	if all := l.inForce("proxy_next_upstream"); len(all) > 0 {
		return all[0].Args()
	}
	return []string{"error", "timeout"}
}

func (w *linter) upstream(name string) *nginx.Directive {
	for _, http := range w.conf {
		for _, d := range http.Block {
			if http.Name() == "http" && d.Name() == "upstream" && slices.Equal(d.Args(), []string{name}) {
				return d
			}
		}
	}
	return nil
}

// times looks for a check that holds requests up.
func (w *linter) times(l *level, pass *nginx.Directive) {
	if len(l.inForce("proxy_read_timeout")) == 0 {
		w.add(pass, "%s waits 60s for a stuck authz; want proxy_read_timeout 1s;", l)
	}
	if l.arg("proxy_intercept_errors", "off") == "on" {
		w.add(l.inForce("proxy_intercept_errors")[0], "proxy_intercept_errors on for the check: what authz answers is taken for an error; want proxy_intercept_errors off; in %s", l)
	}
}
