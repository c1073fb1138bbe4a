package nginx

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authz/tests/rig"
)

// byHand is a check as one writes it oneself, with nothing wrong in it; pairs are what is replaced.
func byHand(pairs ...string) string {
	return strings.NewReplacer(pairs...).Replace(`
		set $authz_limited_retry_after "";  # which authz.conf asks for
		auth_request /_authz;
		auth_request_set $authz_status $upstream_http_x_authz_status;
		error_page 403 = @denied;
		location @denied { if ($authz_status = 429) { return 429; } return 403; }
		location @dead { return 403; }
		location = /_authz {
			internal;
			proxy_pass http://authz/nginx;
			proxy_pass_request_body off;
			proxy_pass_request_headers off;
			proxy_set_header Content-Length "";
			proxy_set_header X-Original-Method $request_method;
			proxy_set_header X-Original-URI $request_uri;
			proxy_set_header X-Real-IP $remote_addr;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_connect_timeout 200ms;
			proxy_read_timeout 1s;
			client_max_body_size 0;
			error_page 502 504 = @dead;
		}
		location / { proxy_pass http://app; }`)
}

// lintOf is what lint finds in the configuration that an nginx runs, without files and lines.
func lintOf(t testing.TB, n *rig.NginxServer) string {
	t.Helper()
	_, text := rig.Authz(t, "lint", filepath.Join(n.Dir, "nginx.conf"))
	return strings.TrimSpace(regexp.MustCompile(`(?m)^\S+:\d+: `).ReplaceAllString(text, ""))
}

const oneRequest = "[limit.one]\nmatch = { path = \"/\" }\nkey = [\"ip\"]\nalgorithm = \"fixed_window\"\nrate = \"1/366d\"\n"

// What lint says of a configuration is what nginx does, one finding each; nothing is found where the limit holds.
func TestWhatLintFindsIsWhatNginxDoes(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	check := func(statuses, finding, server string, more rig.SiteConf, header ...string) {
		t.Helper()
		if err := r.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		more.Limits, more.Server, more.Redis = oneRequest, server, r
		s := rig.StartSite(t, more)
		var got []string
		for i := range 3 {
			from := []string{}
			for _, h := range header {
				from = append(from, fmt.Sprintf("%s: 203.0.113.%d", h, i))
			}
			got = append(got, s.SendAll(t, 1, "GET /", from...))
		}
		if found := lintOf(t, s.NginxServer); strings.Join(got, " ") != statuses || found != finding {
			t.Errorf("%s\ngot  %v\n%s\nwant [%s]\n%s", server, got, found, statuses, finding)
		}
	}
	const include, app = "include authz/authz_server.conf;", "location / { proxy_pass http://app; }"
	check("200 429 429", "", include+app, rig.SiteConf{})
	check("200 429 429", "", byHand(), rig.SiteConf{})

	// What answers before the check, or instead of it.
	check("200 200 200", "return in location / answers before the check, which never happens; want auth_request off; there if that is meant",
		include+`location / { return 200 "x"; }`, rig.SiteConf{})
	check("301 301 301", "rewrite in location / answers before the check, which never happens; want auth_request off; there if that is meant",
		include+`location / { rewrite ^ /new permanent; }`, rig.SiteConf{})
	check("204 204 204", "return in an if of server{} answers before the check, which never happens; want it in a location",
		include+`if ($request_method = GET) { return 204; }`+app, rig.SiteConf{})
	check("200 200 200", "rewrite before the check's own break catches /_authz, and what it makes of that answers for the check; want it below the include, or in a location",
		`location /free { auth_request off; proxy_pass http://app; } rewrite ^/_authz$ /free;`+include+app, rig.SiteConf{})
	check("200 200 200", "satisfy any: who is let in by allow or a password is not checked, and who is admitted passes deny; want satisfy all",
		include+`location / { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://app; }`, rig.SiteConf{})
	check("200 200 200", "auth_request in location / is asked instead of that of server, and authz is not; want it in an inner server{} to which this one passes the request",
		include+`location / { auth_request /verify; proxy_pass http://app; } location = /verify { internal; proxy_pass http://app; }`, rig.SiteConf{})
	check("200 200 200", "auth_request /verify is answered by location / like what a client asks for, and admits with it; want location = /verify { internal; … }",
		`set $authz_status ""; set $authz_limited_retry_after ""; auth_request /verify;`+app, rig.SiteConf{})
	check("200 200 200", "return in location = /_authz answers instead of authz; want it gone", byHand("internal;", "internal; return 200;"), rig.SiteConf{})
	check("200 200 200", "proxy_cache pages for the check: its answers are given again to others; want proxy_cache off; in location = /_authz",
		"proxy_cache pages; proxy_cache_valid 200 1h; proxy_ignore_headers Cache-Control;"+byHand(), rig.SiteConf{Http: "proxy_cache_path pages keys_zone=pages:1m;"})

	check("429 429 429", "try_files ends in @app, for which nginx checks again, and a request is charged twice; want the lines of authz_check.conf that have $authz_done",
		byHand("location / { proxy_pass http://app; }", "location / { try_files /none @app; } location @app { proxy_pass http://app; }"), rig.SiteConf{})
	check("429 429 429", "try_files ends in /b, for which nginx checks again, and a request is charged twice; want the lines of authz_check.conf that have $authz_done",
		byHand("location / { proxy_pass http://app; }", "location / { try_files /none /b; } location = /b { proxy_pass http://app; }"), rig.SiteConf{})

	// Who the client is, and what it asks for.
	check("200 200 200", "set_real_ip_from 0.0.0.0/0 believes everybody: a client that reaches nginx itself chooses its address; want the addresses of the proxy in front",
		include+"set_real_ip_from 0.0.0.0/0; real_ip_header X-Forwarded-For;"+app, rig.SiteConf{}, "X-Forwarded-For")
	check("200 429 429", "real_ip_header without set_real_ip_from: it does nothing, and every client is the proxy in front; want set_real_ip_from ADDRESSES of that proxy",
		include+"real_ip_header X-Forwarded-For;"+app, rig.SiteConf{}, "X-Forwarded-For")
	check("200 200 200", "X-Real-IP $http_cf_connecting_ip is what the client says: it chooses its address; want $remote_addr, and real_ip_header with set_real_ip_from if a proxy is in front",
		byHand("$remote_addr", "$http_cf_connecting_ip"), rig.SiteConf{}, "CF-Connecting-IP")
	check("200 200 200", "X-Original-URI $uri is the check's own path, whatever was asked for; want $request_uri", byHand("$request_uri", "$uri"), rig.SiteConf{})
}

// What lint says of refusals, and of an authz that is away, is what clients see.
func TestWhatLintSaysOfRefusalsIsWhatClientsSee(t *testing.T) {
	t.Parallel()
	r := rig.StartRedis(t)
	const include = "include authz/authz_server.conf;"
	check := func(statuses, finding, server string, more rig.SiteConf) {
		t.Helper()
		if err := r.FlushAll(context.Background()).Err(); err != nil {
			t.Fatal(err)
		}
		more.Limits, more.Server, more.Redis = oneRequest, server, r
		s := rig.StartSite(t, more)
		s.MayLog = []string{"unexpected status: 50", "connect() to unix:/nowhere failed"}
		got := s.SendAll(t, 2, "GET /")
		if found := lintOf(t, s.NginxServer); got != statuses || found != finding {
			t.Errorf("%s\ngot  %s\n%s\nwant %s\n%s", server, got, found, statuses, finding)
		}
	}
	check("200 403", "error_page in location / drops those of the server: a limited client sees a 403; want error_page 403 = @authz_denied; there too",
		include+"location / { error_page 404 /x; proxy_pass http://app; }", rig.SiteConf{})
	check("200 403", "error_page 403 /403.html comes first: a limited client sees a 403; want it below error_page 403 = @authz_denied;",
		"error_page 403 /403.html;"+include+"location / { proxy_pass http://app; }", rig.SiteConf{})
	check("200 403", "error_page 403 /page: that page is checked itself, and refused; want auth_request off; in location /",
		byHand("403 = @denied", "403 =429 /page"), rig.SiteConf{})
	check("200 500", "error_page 403 @nobody: there is no such location, and a refusal is a 500; want location @nobody { … }",
		include+"location / { error_page 403 = @nobody; proxy_pass http://app; }", rig.SiteConf{})
	check("200 403", "auth_request_set in location / drops those of the server, $authz_status among them: a limited client sees a 403; want it in the server",
		include+"location / { auth_request_set $x 1; proxy_pass http://app; }", rig.SiteConf{})
	check("200 503", "limit_req beside the check refuses first, and with a 503, as if the site were down; want limit_req_status 429; or a limit of authz instead",
		include+"limit_req zone=z; location / { proxy_pass http://app; }", rig.SiteConf{Http: "limit_req_zone $server_name zone=z:1m rate=1r/m;"})
	const away = "upstream authz { server unix:/nowhere; keepalive 1; }"
	check("500 500", "error_page for the check ends in return 503: auth_request makes 500 of it; want return 403 in location @dead",
		byHand("@dead { return 403; }", "@dead { return 503; }"), rig.SiteConf{Upstream: away})
	check("500 500", "no error_page 502 504 for location = /_authz: while authz is away every client sees 500; want error_page 502 504 = @authz_dead; in it",
		byHand("error_page 502 504 = @dead;", ""), rig.SiteConf{Upstream: away})
	check("403 403", "", byHand(), rig.SiteConf{Upstream: away})
}

// A check that anybody can ask for charges whom it is asked about.
func TestACheckThatIsNotInternalCanBeAskedForByAnybody(t *testing.T) {
	t.Parallel()
	s := rig.StartSite(t, rig.SiteConf{Limits: oneRequest, Server: byHand("internal;", "auth_request off;", "X-Original-URI $request_uri", "X-Original-URI /")})
	rig.Same(t, s.SendAll(t, 2, "GET /_authz"), "200 403")
	rig.Same(t, lintOf(t, s.NginxServer), "location = /_authz: the check can be asked for by anybody; want internal; in it")
}

// What a zone goes by has to be known before: limit_req comes before auth_request.
func TestALimitReqByWhatAuthRequestAnsweredLimitsNobody(t *testing.T) {
	t.Parallel()
	s := rig.StartSite(t, rig.SiteConf{Limits: strings.Replace(oneRequest, "1/", "9/", 1), Http: "limit_req_zone $tier zone=z:1m rate=1r/m;",
		Server: "include authz/authz_server.conf; auth_request_set $tier $upstream_http_x_authz_status; limit_req zone=z; limit_req_status 429; location / { proxy_pass http://app; }"})
	rig.Same(t, s.SendAll(t, 4, "GET /"), "200 200 200 200")
	rig.Same(t, lintOf(t, s.NginxServer), "limit_req_zone goes by $tier, which auth_request_set fills later: it is empty, and nobody is limited; want a limit of authz")
}

// The same for the OpenResty pack.
func TestWhatLintFindsBesideThePackIsWhatNginxDoes(t *testing.T) {
	t.Parallel()
	policy := filepath.Join(t.TempDir(), "limits.json")
	rig.ReplaceFile(t, policy, string(rig.Compile(t, "[limit.one]\nkey = [\"path:raw\"]\nalgorithm = \"fixed_window\"\nrate = \"1/366d\"\n").JSON()))
	app := rig.StartApp(t)
	s := &rig.Site{NginxServer: rig.StartPackNginx(t, 1, fmt.Sprintf(`
		upstream app { server %s; }
		lua_shared_dict authz 1m;
		init_by_lua_block { authz = assert(require("resty.authz").new { policy = "%s" }) }
		server {
			listen LISTEN;
			include authz/openresty.conf;
			access_by_lua_block { authz.access() }
			location / { proxy_pass http://app; }
			location /own { access_by_lua_block { ngx.ctx.seen = true } proxy_pass http://app; }
			location /both { access_by_lua_block { ngx.ctx.seen = true; authz.access() } proxy_pass http://app; }
			location /free { access_by_lua_block { } return 204; }
			location /ping { return 200 "pong"; }
			location /any { satisfy any; allow 127.0.0.1; deny all; proxy_pass http://app; }
		}`, app.Addr, policy), nil)}
	rig.Same(t, s.SendAll(t, 2, "GET /"), "200 429")
	rig.Same(t, s.SendAll(t, 2, "GET /both"), "200 429")
	rig.Same(t, s.SendAll(t, 2, "GET /own"), "200 200")
	rig.Same(t, s.SendAll(t, 2, "GET /ping"), "200 200")
	rig.Same(t, s.SendAll(t, 2, "GET /any"), "200 200")
	rig.Same(t, lintOf(t, s.NginxServer), "access_by_lua_block in location /own replaces that of server, and authz.access() does not run; want it there too, as the last thing\n"+
		"return in location /ping answers before the check, which never happens; want access_by_lua_block { } there if that is meant\n"+
		"satisfy any: who is let in by allow or a password is not checked, and who is admitted passes deny; want satisfy all")
}
