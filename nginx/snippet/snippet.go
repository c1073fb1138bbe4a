// Package snippet writes the nginx configuration that a set of limits needs.
package snippet

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"unicode"

	"authz/internal/header"
	"authz/limits"
	"authz/nginx"
)

type Options struct {
	For      string   `help:"${enum}." enum:"nginx,openresty" default:"nginx"`
	Limits   []string `arg:"" help:"Limits file, or folder of *.toml."`
	Headers  string   `help:"Headers that clients get, as for authz serve: ietf, legacy (X-RateLimit-*) or both." enum:"ietf,legacy,both" default:"ietf"`
	Admitted bool     `name:"admitted-headers" help:"Admitted clients get them too."`
	Upstream string   `help:"For nginx: where authz serve listens, host:port or unix:/path." default:"127.0.0.1:7429"`
	Dead     string   `help:"For nginx: while authz itself is dead, closed (503) or open (requests pass)." enum:"closed,open" default:"closed"`
	Redis    string   `help:"For openresty: host:port or unix:/path of Redis; without it limits are this machine's own."`
	Policy   string   `help:"For openresty: where the compiled limits lie." default:"/etc/authz/limits.json"`
}

// Help is what --help says beside the flags.
func (*Options) Help() string {
	return `Writes what stands in http{} for these limits, in one piece that includes no other file of authz: the check forwards just
the headers that the limits read. Put your own listen, server_name and locations into its server{}.`
}

func (f *Options) Validate() error {
	switch {
	case !isPlace(f.Upstream):
		return fmt.Errorf("--upstream=%s: want host:port or unix:/path", f.Upstream)
	case f.Redis != "" && !isPlace(f.Redis):
		return fmt.Errorf("--redis=%s: want host:port or unix:/path", f.Redis)
	}
	if strings.ContainsAny(f.Policy, "\"\\") || hasControl(f.Policy) {
		return fmt.Errorf("--policy=%q: want a path without quotes and backslashes", f.Policy)
	}
	for _, path := range f.Limits {
		if hasControl(path) {
			return fmt.Errorf("%q: want a name of one line", path)
		}
	}
	if other := f.notFor(); other != "" {
		return fmt.Errorf("--%s is not for %s", other, f.For)
	}
	return nil
}

// isPlace says whether nginx can be told it as host:port or unix:/path.
func isPlace(at string) bool {
	if path, isUnix := strings.CutPrefix(at, "unix:"); isUnix {
		return strings.HasPrefix(path, "/") && isPlain(path) && !strings.Contains(path, ":")
	}
	_, port, err := net.SplitHostPort(at)
	return err == nil && port != "" && isPlain(at) && !strings.Contains(at, "/")
}

func isPlain(at string) bool { return !strings.ContainsAny(at, " \"'\\;{}$") && !hasControl(at) }

func hasControl(text string) bool { return strings.ContainsFunc(text, unicode.IsControl) }

// A choice is a flag of the command line, its default, and what it is for if not for both.
type choice struct{ name, value, byDefault, only string }

func (f *Options) choices() []choice {
	return []choice{{"headers", f.Headers, "ietf", ""}, {"upstream", f.Upstream, "127.0.0.1:7429", "nginx"}, {"dead", f.Dead, "closed", "nginx"},
		{"redis", f.Redis, "", "openresty"}, {"policy", f.Policy, "/etc/authz/limits.json", "openresty"}}
}

// notFor is a flag that says nothing for what is written.
func (f *Options) notFor() string {
	for _, c := range f.choices() {
		if c.value != c.byDefault && c.only != "" && c.only != f.For {
			return c.name
		}
	}
	return ""
}

// Text is the configuration for a set.
func (f *Options) Text(set *limits.Set) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "# For http{}: what the limits of %s need. Written, and written again, by\n#     %s\n", f.files(), f.command())
	if f.For == "openresty" {
		f.openresty(&out, set)
	} else if err := f.nginx(&out, set); err != nil {
		return "", fmt.Errorf("snippet: %w", err)
	}
	return out.String(), nil
}

// command is what writes the same again.
func (f *Options) command() string {
	words := "authz snippet --for=" + f.For
	for _, c := range f.choices() {
		if c.value != c.byDefault {
			words += " --" + c.name + "=" + shellWord(c.value)
		}
	}
	if f.Admitted {
		words += " --admitted-headers"
	}
	return words + " " + f.files()
}

// files are the limits, as a shell takes them.
func (f *Options) files() string {
	var words []string
	for _, path := range f.Limits {
		words = append(words, shellWord(path))
	}
	return strings.Join(words, " ")
}

func shellWord(text string) string {
	const plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+=,-"
	if text != "" && strings.Trim(text, plain) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

func (f *Options) nginx(out *strings.Builder, set *limits.Set) error {
	headers, err := forwarded(set.ReadHeaders())
	if err != nil {
		return err
	}
	maps := bare("authz.conf")
	if slices.Contains(set.ReadHeaders(), "host") {
		maps += "map $http_host $authz_http_host { \"\" none; default $http_host; }\n" // a client of HTTP/1.0 may have none, a check may not
	}
	upstream := strings.Replace(bare("authz_upstream_tcp.conf"), "127.0.0.1:7429", f.Upstream, 1)
	fmt.Fprintf(out, "\n%s\n%s\nserver {\n", f.chosen(maps), upstream)
	file := "authz_server.conf"
	if f.Dead == "open" {
		file = "authz_server_open.conf"
	}
	server := strings.Replace(bare(file), "include authz/authz_check.conf;\n", bare("authz_check.conf"), 1)
	server = strings.Replace(server, "    include authz/authz_headers.conf;\n", headers, 1)
	server = strings.ReplaceAll(server, "        include authz/authz_refusal.conf;\n", indented(bare("authz_refusal.conf"), 2))
	if f.Admitted {
		server += bare("authz_ratelimit.conf")
	}
	out.WriteString(indented(f.chosen(server), 1))
	f.rest(out, set)
	out.WriteString("}\n")
	return nil
}

// chosen are the lines of a configuration without those for headers that clients do not get.
func (f *Options) chosen(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lower := strings.ToLower(strings.ReplaceAll(line, "_", "-"))
		isLegacy := strings.Contains(lower, "x-ratelimit-") || strings.Contains(lower, "$authz-x-")
		isIETF := !isLegacy && strings.Contains(lower, "ratelimit")
		if isLegacy && f.Headers == "ietf" || isIETF && f.Headers == "legacy" {
			continue
		}
		lines.WriteString(line)
	}
	return lines.String()
}

// rest is what is the owner's own in a server.
func (f *Options) rest(out *strings.Builder, set *limits.Set) {
	out.WriteString("\n    # Yours: listen, server_name, locations.\n")
	for _, zone := range set.Zones() {
		if strings.ContainsAny(zone, `*$"\`) || hasControl(zone) {
			fmt.Fprintf(out, "    # In a location that limits call by zone = %q: set $authz_zone to a name that it meets.\n", zone)
			continue
		}
		fmt.Fprintf(out, "    # In the location that limits call zone %q: set $authz_zone %q;\n", zone, zone)
	}
}

// forwarded are the lines of the check that hand it what the client sent.
func forwarded(names []string) (lines string, err error) {
	var wrong []error
	for _, name := range names {
		if !nginx.IsVariable(name) {
			wrong = append(wrong, fmt.Errorf("header:%s: nginx has no variable for it, and hands on none with _: want a name of letters, digits and -", name))
		}
		switch name {
		case "x-real-ip", "x-request-id", "x-authz-zone", "x-original-method", "x-original-uri", "x-original-host":
			continue // the check sends it as it knows it
		case "host":
			lines += "    proxy_set_header Host $authz_http_host;\n"
			continue
		case "connection", "content-length", "transfer-encoding", "expect", "x-original-url", "x-forwarded-method":
			wrong = append(wrong, fmt.Errorf("header:%s: it is a proxy's own in a check, and cannot be the client's: want another header", name))
		}
		lines += fmt.Sprintf("    proxy_set_header %s $http_%s;\n", header.Canonical(name), strings.ReplaceAll(name, "-", "_"))
	}
	return lines, errors.Join(wrong...)
}

func (f *Options) openresty(out *strings.Builder, set *limits.Set) {
	options := ""
	if f.Redis != "" {
		options += f.luaRedis()
	}
	if f.Headers != "ietf" {
		options += fmt.Sprintf("        headers = %q,\n", f.Headers)
	}
	if f.Admitted {
		options += "        admitted_headers = true,\n"
	}
	policy := shellWord(f.Policy)
	fmt.Fprintf(out, `# The policy, again after each edit of the limits:
#     authz compile %s > %s.new && mv %[2]s.new %[2]s

lua_package_path "/usr/share/authz/lua/?.lua;;";
lua_shared_dict authz         32m;
lua_shared_dict authz_metrics 1m;
init_by_lua_block {
    require("jit.opt").start("maxirconst=2000")
    authz = assert(require("resty.authz").new {
        policy = "%[3]s",
%[4]s        metrics = "authz_metrics",
        refusal_cache = true,
    })
}
init_worker_by_lua_block { authz.init_worker() }
access_by_lua_no_postpone on;  # before auth_basic, auth_request, allow and deny, so that guesses are counted

server {
%[5]s    access_by_lua_block { authz.access() }
`, f.files(), policy, f.Policy, options, indented(bare("openresty.conf"), 1))
	f.rest(out, set)
	out.WriteString("}\n")
}

func (f *Options) luaRedis() string {
	if path, isUnix := strings.CutPrefix(f.Redis, "unix:"); isUnix {
		return fmt.Sprintf("        redis = { socket = %q },\n", path)
	}
	host, port, _ := net.SplitHostPort(f.Redis) // as Validate knows
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // so that nginx knows an IPv6 address
	}
	return fmt.Sprintf("        redis = { host = %q, port = %s },\n", host, port)
}

// bare is one of the shipped files without the lines that are comments, or empty.
func bare(name string) string {
	text, err := nginx.Files.ReadFile(name)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if line, comment, _ := strings.Cut(line, " #"); strings.TrimSpace(line) != "" && !strings.HasPrefix(strings.TrimSpace(line), "#") {
			if comment != "" {
				line = strings.TrimRight(line, " ") + "\n"
			}
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

func indented(text string, by int) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		lines.WriteString(strings.Repeat("    ", by) + line)
	}
	return lines.String()
}
