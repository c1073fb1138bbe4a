package lint

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"authz/internal/header"
	"authz/internal/route"
	"authz/nginx"
)

// client looks at how the client's address is known.
func (w *linter) client(l *level) {
	for _, d := range l.own("set_real_ip_from") {
		if d.Words[1] == "0.0.0.0/0" || d.Words[1] == "::/0" {
			w.add(d, "set_real_ip_from %s believes everybody: a client that reaches nginx itself chooses its address; want the addresses of the proxy in front", d.Words[1])
		}
	}
	if header := l.inForce("real_ip_header"); l.Name() != "http" && len(header) > 0 && len(l.inForce("set_real_ip_from")) == 0 {
		w.add(header[0], "real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy")
	}
}

// unixClients looks for a unix socket that clients come through: they have no address there but by a header.
func (w *linter) unixClients(l *level) {
	fromUnix := func(d *nginx.Directive) bool { return d.Words[1] == "unix:" }
	for _, d := range l.server.own("listen") {
		if strings.HasPrefix(d.Words[1], "unix:") && !slices.ContainsFunc(l.inForce("set_real_ip_from"), fromUnix) {
			w.add(d, "listen %s: no client has an address there, and all share the bucket ip=unknown; "+
				"want set_real_ip_from unix: and the real_ip_header of the proxy in front", d.Words[1])
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
	if l.check().isOurs() && l.arg("limit_req_status", "503") == "503" {
		for _, d := range l.inForce("limit_req") {
			w.add(d, "limit_req beside the check refuses first, and with a 503, as if the site were down; want limit_req_status 429; or a limit of authz instead")
		}
	}
}

// zoneKeys looks for a limit_req that goes by what auth_request answered: it is asked before.
func (w *linter) zoneKeys() {
	late := map[string]bool{}
	for _, l := range w.levels {
		for _, d := range l.own("auth_request_set") {
			late[d.Words[1]] = true
		}
	}
	for _, l := range w.levels {
		for _, zone := range slices.Concat(l.own("limit_req_zone"), l.own("limit_conn_zone")) {
			if key := zone.Words[1]; late[key] {
				w.add(zone, "%s goes by %s, which auth_request_set fills later: it is empty, and nobody is limited; want a limit of authz", zone.Name(), key)
			}
		}
	}
}

// number is the one in an argument such as burst=12, -1 if there is none.
func number(d *nginx.Directive, name string) int {
	for _, arg := range d.Args() {
		if text, ok := strings.CutPrefix(arg, name); ok {
			if n, err := strconv.Atoi(text); err == nil {
				return n
			}
		}
	}
	return -1
}

// checkLocation looks at the location that asks authz.
func (w *linter) checkLocation(l *level) {
	at := l.Directive
	pass := l.own("proxy_pass")[0]
	sent := l.sends()
	w.ownHeaders(l, sent)
	w.values(l)
	w.body(l, at, sent)
	w.forwards(l, at, sent)
	w.keepalive(l, pass, sent)
	w.times(l, pass)
	w.dead(l)
}

// wantValues is what nginx knows, for the fields that a route reads, in the order of the findings.
var wantValues = []struct {
	field       route.Field
	value, what string
}{
	{route.Method, "$request_method", "authz blocks what has none"},
	{route.Target, "$request_uri", "authz blocks what has none"},
	{route.URL, "$scheme://$http_host$request_uri", "authz blocks what has none"},
	{route.IP, "$remote_addr", "every client is ip=unknown, in one bucket"},
}

// ownHeaders looks for the headers that the route of a check reads, and for those of another proxy.
func (w *linter) ownHeaders(l *level, sent map[string]string) {
	asked, _ := l.asks()
	isForeign := false
	for _, f := range asked.Foreign {
		if sent[strings.ToLower(f.Header)] == "" {
			continue
		}
		isForeign = true
		w.add(l.Directive, "%s sends %s, another proxy's header, and authz blocks it at %s; %s",
			l, f.Header, asked.Path, f.Cure)
	}
	for _, want := range wantValues {
		name := asked.Header(want.field)
		isTarget := want.field == route.Target || want.field == route.URL
		if name != "" && sent[strings.ToLower(name)] == "" && !(isTarget && isForeign) {
			w.add(l.Directive, "%s sends no %s: %s; want proxy_set_header %s %s;", l, name, want.what, name, want.value)
		}
	}
}

// twice looks for a request that nginx has checked again after it has looked for files.
func (w *linter) twice(l, check *level) {
	if slices.ContainsFunc(named(check.Block, "if"), func(d *nginx.Directive) bool { return len(named(d.Block, "return")) > 0 }) {
		return // it answers the second time by itself
	}
	for _, d := range l.own("try_files") {
		last := d.Words[len(d.Words)-1]
		path, _, _ := strings.Cut(last, "?")
		next := l.namedLocation(path)
		if strings.HasPrefix(path, "/") {
			next = cmp.Or(l.server.meets(path), l.server)
		}
		if next != nil && next.check() == check {
			w.add(d, "try_files ends in %s, for which nginx checks again, and a request is charged twice; want the lines of authz_check.conf that have $authz_done", last)
		}
	}
}

// values looks at what the check is told of the request: it has to be what nginx knows, not what the client says.
func (w *linter) values(l *level) {
	known := map[string]string{"x-original-method": "$request_method", "x-original-host": "$host", "x-authz-zone": "$authz_zone"}
	for _, d := range l.inForce("proxy_set_header") {
		if len(d.Words) != 3 {
			continue
		}
		name, value := strings.ToLower(d.Words[1]), d.Words[2]
		isTarget := name == "x-original-uri" || name == "x-original-url"
		switch {
		case isTarget && (strings.HasSuffix(value, "$uri") || strings.HasSuffix(value, "$document_uri")):
			w.add(d, "%s %s is the check's own path, whatever was asked for; want $request_uri", d.Words[1], value)
		case name == "x-real-ip" && strings.HasPrefix(value, "$http_"):
			w.add(d, "%s %s is what the client says: it chooses its address; want $remote_addr, and real_ip_header with "+
				"set_real_ip_from if a proxy is in front", d.Words[1], value)
		case known[name] != "" && strings.HasPrefix(value, "$http_"):
			w.add(d, "%s %s is what the client says; want %s", d.Words[1], value, known[name])
		}
	}
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

// forwards looks for headers that limits read and the check is not handed. A route that reads nothing of what a client
// may send is handed all of it.
func (w *linter) forwards(l *level, at *nginx.Directive, sent map[string]string) {
	asked, url := l.asks()
	all := l.arg("proxy_pass_request_headers", "on") != "off"
	if all && asked.Header(route.Host) != "" {
		w.add(at, "%s hands on all that the client sent: 64 KB of it are too much, and it may say what only nginx should; "+
			"want proxy_pass_request_headers off;", l)
	}
	for _, name := range w.headers {
		w.forward(l, at, name, sent, all, url)
	}
}

func (w *linter) forward(l *level, at *nginx.Directive, name string, sent map[string]string, all bool, url string) {
	asked, _ := l.asks()
	fromNginx := map[string]string{"x-authz-zone": "$authz_zone", "x-original-host": "$host", "host": ""}
	want, isNginx := fromNginx[name]
	want = cmp.Or(want, "$http_"+strings.ReplaceAll(name, "-", "_"))
	value, isSet := sent[name]
	switch {
	case name == "x-authz-zone" && asked.ZoneInURL:
		if len(route.ZoneIn(nil, []byte(url))) == 0 {
			w.add(at, "%s names no zone, which a limit reads; want ?zone=NAME at the end of its proxy_pass", l)
		}
	case name == "x-original-host" && asked.Header(route.URL) != "":
	case isSet && value != "" || !isSet && all && !isNginx:
	case name == "host":
		w.add(at, "%s does not hand on Host, which a limit reads; want host instead of header:Host there", l)
	case !nginx.IsVariable(name):
		w.add(at, "%s does not hand on %s, which a limit reads, nor can nginx; want a name of letters, digits and -", l, name)
	default:
		w.add(at, "%s does not hand on %s, which a limit reads; want proxy_set_header %s %s;", l, header.Canonical(name), header.Canonical(name), want)
	}
}

// keepalive looks for why each check costs a connection. From nginx 1.29.7 on none of that has to be said.
func (w *linter) keepalive(l *level, pass *nginx.Directive, sent map[string]string) {
	if l.arg("proxy_http_version", "1.0") == "1.0" {
		w.add(l.Directive, "%s asks by HTTP/1.0, a new connection each time; want proxy_http_version 1.1;", l)
	}
	if value, ok := sent["connection"]; !ok || value != "" {
		w.add(l.Directive, `%s sends Connection: %s, a new connection each time; want proxy_set_header Connection "";`, l, map[bool]string{true: value, false: "close"}[ok])
	}
	name, _ := l.upstreamOf(pass)
	upstream := w.upstream(name)
	if upstream == nil {
		if !strings.Contains(name, "$") {
			w.add(pass, "proxy_pass to %s without an upstream{} with keepalive: each check costs a connection; want upstream authz { server %s; keepalive 64; }", name, name)
		}
		return
	}
	kept := -1
	for i, d := range upstream.Block {
		switch d.Name() {
		case "keepalive":
			kept = i
		case "least_conn", "ip_hash", "hash", "random", "least_time":
			if kept >= 0 {
				w.add(upstream.Block[kept], "keepalive before %s is undone by it: each check costs a connection; want keepalive below it", d.Name())
			}
		}
	}
	if kept < 0 {
		w.add(upstream, "upstream %s without keepalive: each check costs a connection; want keepalive 64;", name)
	}
	if len(named(upstream.Block, "server")) > 1 && slices.Contains(nextUpstream(l), "timeout") {
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
	var want []string
	if len(l.inForce("proxy_connect_timeout")) == 0 {
		want = append(want, "proxy_connect_timeout 200ms;")
	}
	if len(l.inForce("proxy_read_timeout")) == 0 {
		want = append(want, "proxy_read_timeout 1s;")
	}
	if len(want) > 0 {
		w.add(pass, "%s waits 60s for a stuck authz; want %s", l, strings.Join(want, " "))
	}
	if l.arg("proxy_intercept_errors", "off") == "on" && (l.errorPage("403") != nil || l.errorPage("404") != nil) {
		w.add(l.inForce("proxy_intercept_errors")[0], "proxy_intercept_errors on for the check: what authz answers is taken for an error; want proxy_intercept_errors off; in %s", l)
	}
}
