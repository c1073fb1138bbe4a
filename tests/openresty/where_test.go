package openresty

import (
	"fmt"
	"strings"
	"testing"

	"authz/tests/rig"
)

// The forms of lua/README.md, and what each counts: five requests where a limit admits three.
func TestAGuessedPasswordIsCounted(t *testing.T) {
	r := rig.StartRedis(t)
	const counted, not = "200 200 200 429 429", "200 200 200 200 200"
	form := func(name, http, server, basic, request, any, answered, zone string) {
		t.Helper()
		n := rig.StartPackNginx(t, 1, fmt.Sprintf(`
			lua_shared_dict authz 1m;
			init_by_lua_block {
				authz = assert(require("resty.authz").new{policy = "limits.json", redis = {socket = "%s", timeout = "20s"}})
			}
			init_worker_by_lua_block { authz.init_worker() }
			%s
			server {
				listen LISTEN;
				include authz/openresty.conf;
				%s
				location /basic { auth_basic "x"; auth_basic_user_file users; content_by_lua_block { ngx.print("in") } }
				location /request { auth_request /no; content_by_lua_block { ngx.print("in") } }
				location = /no { internal; return 401; }
				location /any { satisfy any; allow 127.0.0.1; deny all; content_by_lua_block { ngx.print("in") } }
				location /return { return 200 "in"; }
				location /zoned { set $authz_zone zoned; content_by_lua_block { ngx.print("in") } }
			}`, r.Socket, http, server), map[string]string{"users": "u:{PLAIN}p\n", "limits.json": string(rig.Compile(t, `
			[limit.three]
			unless = { path = "/zoned" }
			key = ["path:raw"]
			algorithm = "fixed_window"
			rate = "3/366d"
			[limit.zoned]
			match = { zone = "zoned" }
			key = ["ip"]
			algorithm = "fixed_window"
			rate = "3/366d"`).JSON())})
		n.MayLog = []string{"password mismatch"}
		for _, row := range [][2]string{{"/basic", strings.ReplaceAll(basic, "200", "401")}, {"/request", strings.ReplaceAll(request, "200", "401")},
			{"/any", any}, {"/return", answered}, {"/zoned", zone}} {
			got := name + " " + row[0]
			for range 5 {
				got += fmt.Sprint(" ", n.Send(t, "GET "+row[0], "", "Authorization: Basic dTp3cm9uZw==").Status)
			}
			rig.Same(t, got, name+" "+row[0]+" "+row[1])
		}
		n.Quit(t)
		r.FlushAll(t.Context())
	}
	form("no_postpone", "access_by_lua_no_postpone on;", "access_by_lua_block { authz.access() }", counted, counted, counted, not, counted)
	form("rewrite", "", "rewrite_by_lua_block { authz.access() }", counted, counted, counted, not, counted)
	form("server_rewrite", "", "server_rewrite_by_lua_block { authz.access() }", counted, counted, counted, counted, not)
	form("postponed", "", "access_by_lua_block { authz.access() }", not, not, not, not, counted)
}
