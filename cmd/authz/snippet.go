package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"authz/nginx"
)

type snippetCmd struct {
	For      string   `help:"${enum}." enum:"nginx,openresty" default:"nginx"`
	Limits   []string `arg:"" help:"Limits file, or folder of *.toml."`
	Upstream string   `help:"Where authz serve listens: host:port or unix:/path." default:"127.0.0.1:7429"`
	Dead     string   `help:"While authz itself is dead: closed (503), or open (requests pass)." enum:"closed,open" default:"closed"`
	Redis    string   `help:"For openresty: host:port or unix:/path of Redis; without it limits are this machine's own."`
	Policy   string   `help:"For openresty: where the compiled limits lie." default:"/etc/authz/limits.json"`
}

// Help is what --help says beside the flags.
func (*snippetCmd) Help() string {
	return `Writes what stands in http{} for these limits, in one piece that includes no other file of authz: the check forwards just
the headers that the limits read. Put your own listen, server_name and locations into its server{}.`
}

func (f *snippetCmd) Validate() error {
	for flag, at := range map[string]string{"upstream": f.Upstream, "redis": f.Redis} {
		if path, isUnix := strings.CutPrefix(at, "unix:"); isUnix && strings.HasPrefix(path, "/") && !strings.ContainsAny(path, " \t\"'\\;{}$") || at == "" {
			continue
		}
		if _, port, err := net.SplitHostPort(at); err != nil || port == "" || strings.ContainsAny(at, " \t\"'\\;{}$/") {
			return fmt.Errorf("--%s=%s: want host:port or unix:/path", flag, at)
		}
	}
	if strings.ContainsAny(f.Policy, "\"\\\n") {
		return fmt.Errorf("--policy=%s: want a path without quotes and backslashes", f.Policy)
	}
	return nil
}

// Run writes the configuration.
func (f *snippetCmd) Run(c *console) error {
	set, err := c.loadLimits("authz", f.Limits)
	if err != nil {
		return err
	}
	p := policyOf(set)
	var out strings.Builder
	if f.For == "openresty" {
		f.openresty(&out, p)
	} else if err := f.nginx(&out, p); err != nil {
		return fmt.Errorf("snippet: %w", err)
	}
	_, err = c.out.Write([]byte(out.String()))
	return err
}

func (f *snippetCmd) nginx(out *strings.Builder, p *policy) error {
	headers, err := forwarded(p.headers())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "# authz snippet --for nginx %s\n# For http{}.\n\n", f.files())
	out.WriteString(bare("authz.conf"))
	upstream := strings.Replace(bare("authz_upstream_tcp.conf"), "127.0.0.1:7429", f.Upstream, 1)
	fmt.Fprintf(out, "%s\nserver {\n", upstream)
	file := "authz_server.conf"
	if f.Dead == "open" {
		file = "authz_server_open.conf"
	}
	server := strings.Replace(bare(file), "include authz/authz_check.conf;\n", bare("authz_check.conf"), 1)
	server = strings.Replace(server, "    include authz/authz_headers.conf;\n", headers, 1)
	server = strings.ReplaceAll(server, "        include authz/authz_refusal.conf;\n", indented(bare("authz_refusal.conf"), 2))
	out.WriteString(indented(server, 1))
	f.rest(out, p)
	out.WriteString("}\n")
	return nil
}

// files are the limits, for a comment.
func (f *snippetCmd) files() string {
	return strings.NewReplacer("\n", "?", "\r", "?").Replace(strings.Join(f.Limits, " "))
}

// rest is what is the owner's own in a server.
func (f *snippetCmd) rest(out *strings.Builder, p *policy) {
	out.WriteString("\n    # Yours: listen, server_name, locations.\n")
	for _, zone := range p.zones() {
		fmt.Fprintf(out, "    # In the location that limits call zone %q: set $authz_zone %q;\n", zone, zone)
	}
}

// forwarded are the lines of the check that hand it what the client sent.
func forwarded(names []string) (lines string, err error) {
	var wrong []error
	for _, name := range names {
		variable := strings.ReplaceAll(name, "-", "_")
		if !isVariable(name) {
			wrong = append(wrong, fmt.Errorf("header:%s: nginx has no variable for it, and hands on none with _: want a name of letters, digits and -", name))
		}
		switch name {
		case "host", "x-real-ip", "x-request-id", "x-authz-zone", "x-original-method", "x-original-uri", "x-original-host":
			continue // the check sends it as it knows it
		}
		lines += fmt.Sprintf("    proxy_set_header %s $http_%s;\n", canonical(name), variable)
	}
	return lines, errors.Join(wrong...)
}

// isVariable says whether nginx has a variable of its own for a header of this name.
func isVariable(name string) bool {
	return strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (f *snippetCmd) openresty(out *strings.Builder, p *policy) {
	fmt.Fprintf(out, `# authz snippet --for openresty %[1]s
# For http{}. The policy: authz compile %[1]s > limits.json.new && mv limits.json.new %[2]s

lua_package_path "/usr/share/authz/lua/?.lua;;";
lua_shared_dict authz         32m;
lua_shared_dict authz_metrics 1m;
init_by_lua_block {
    require("jit.opt").start("maxirconst=2000")
    authz = assert(require("resty.authz").new {
        policy = "%[2]s",
%[3]s        metrics = "authz_metrics",
        refusal_cache = true,
    })
}

server {
%[4]s    access_by_lua_block { authz.access() }
`, f.files(), f.Policy, f.luaRedis(), indented(bare("openresty.conf"), 1))
	f.rest(out, p)
	out.WriteString("}\n")
}

func (f *snippetCmd) luaRedis() string {
	if path, isUnix := strings.CutPrefix(f.Redis, "unix:"); isUnix {
		return fmt.Sprintf("        redis = { socket = %q },\n", path)
	}
	if host, port, err := net.SplitHostPort(f.Redis); err == nil {
		return fmt.Sprintf("        redis = { host = %q, port = %s },\n", host, port)
	}
	return ""
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
