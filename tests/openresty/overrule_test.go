package openresty

import (
	"fmt"
	"testing"

	"authz/tests/rig"
)

// The site has the last word: an answer of its own after check() is not replaced at the next internal redirect.
func TestTheSiteMayOverruleADecision(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{
		Limits: `
			[limit.one]
			key = ["path:raw"]
			algorithm = "fixed_window"
			rate = "1/366d"`,
		Server: `
			root html;
			location /own {
				access_by_lua_block { if authz.check().verdict == "limited" then return ngx.exit(503) end }
				error_page 503 /sorry.html;
				proxy_pass http://app;
			}
			location /early {
				rewrite_by_lua_block { if authz.check().verdict == "limited" then return ngx.exit(503) end }
				error_page 503 =200 /sorry.html;
				proxy_pass http://app;
			}
			location /named {
				access_by_lua_block { if authz.check().verdict == "limited" then return ngx.exit(503) end }
				error_page 503 = @sorry;
				proxy_pass http://app;
			}
			location /vip {
				access_by_lua_block {
					local d = authz.check()
					if ngx.var.http_x_vip then return end
					authz.apply(d)
				}
				try_files $uri /index.html;
			}
			location /exec {
				access_by_lua_block { if authz.check().verdict == "limited" then return ngx.exec("/index.html") end }
				proxy_pass http://app;
			}
			location /fallback {
				access_by_lua_block { authz.check() }
				error_page 502 = @sorry;
				proxy_pass http://127.0.0.1:1;
			}
			location /dismissed {
				rewrite_by_lua_block {
					authz.check():dismiss()
					if authz.check().again then ngx.exec("/index.html") end
				}
			}
			location @sorry { try_files /sorry.html =404; }
			location / { proxy_pass http://app; }
			location = /index.html { }
			location = /sorry.html { }`,
		Files: map[string]string{"html/sorry.html": "sorry", "html/index.html": "index"},
	})
	second := func(target, want string) {
		t.Helper()
		s.Send(t, "GET "+target, "", "X-Vip: 1")
		got := s.Send(t, "GET "+target, "", "X-Vip: 1")
		rig.Same(t, fmt.Sprint(target, " ", got.Status, " ", got.Body), target+" "+want)
	}
	second("/own", "503 sorry")
	second("/early", "200 sorry")
	second("/named", "200 sorry")
	second("/vip", "200 index")
	second("/exec", "200 index")
	second("/fallback", "200 sorry")
	second("/dismissed", "200 index")
	rig.Same(t, "/vip "+s.SendAll(t, 1, "GET /vip"), "/vip 429")
	rig.Same(t, fmt.Sprint(s.Asked(t)), "15")
	s.Quit(t)
	rig.Same(t, fmt.Sprint(rig.CountLines(s.Read(t, "access.log"), "/dismissed 200 429 one")), "1") // what was decided stays in the log
}

// A subrequest is part of its client request: decided with it, and decided where the main request was not.
func TestASubrequestOfAnUndecidedRequestIsDecided(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{
		Limits: `
			[limit.two]
			key = ["path:raw"]
			algorithm = "fixed_window"
			rate = "2/366d"`,
		Server: `
			root html;
			location /inside {
				rewrite_by_lua_block { authz.access() }
				content_by_lua_block { ngx.print("[inside]") }
			}
			location /open/ssi/ { access_by_lua_block { } ssi on; try_files /page.html =404; }
			location /ssi/      { ssi on; try_files /page.html =404; }
			location /open/capture {
				access_by_lua_block { }
				content_by_lua_block {
					for i = 1, 2 do
						local inside = ngx.location.capture("/inside")
						ngx.print(inside.status, " ")
					end
				}
			}
			location /capture {
				content_by_lua_block {
					for i = 1, 2 do ngx.print(ngx.location.capture("/inside").status, " ") end
				}
			}`,
		Files: map[string]string{"html/page.html": `<!--#include virtual="/inside" --><!--#include virtual="/inside" -->`},
	})
	body := func(target string) string { return s.Send(t, "GET "+target, "").Body }
	rig.Same(t, body("/ssi/x"), "[inside][inside]")
	rig.Same(t, body("/capture"), "200 200 ")
	rig.Same(t, fmt.Sprint(s.Asked(t)), "2")
	for range 2 {
		rig.Same(t, body("/open/ssi/x"), "[inside][inside]")
		rig.Same(t, body("/open/capture"), "200 200 ")
	}
	rig.Same(t, fmt.Sprint(s.Asked(t)), "6")
	if got := body("/open/ssi/x"); rig.CountLines(got, "429 Too Many Requests") == 0 || rig.CountLines(got, "[inside]") > 0 {
		t.Errorf("the third of two a year gets %q, want two refusals", got)
	}
	rig.Same(t, body("/open/capture"), "429 429 ")
	rig.Same(t, fmt.Sprint(s.Asked(t)), "8")
}
