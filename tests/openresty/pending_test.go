package openresty

import (
	"fmt"
	"testing"

	"authz/tests/rig"
)

// What check() decided is done by access(), in whatever phase and location that is called: the request is
// charged once, and who was refused does not get through. A subrequest in between changes nothing.
func TestAccessDoesWhatCheckDecided(t *testing.T) {
	s := rig.StartPack(t, rig.StartRedis(t), "", rig.SiteConf{
		Limits: `
			[limit.two]
			key = ["path:raw"]
			algorithm = "fixed_window"
			rate = "2/366d"`,
		Server: `
			location / {
				rewrite_by_lua_block { authz.check() }
				proxy_pass http://app;
			}
			location /sub {
				rewrite_by_lua_block { authz.check() }
				auth_request /admitted;
				proxy_pass http://app;
			}
			location /both {
				rewrite_by_lua_block { authz.check() }
				access_by_lua_block { authz.apply(authz.check()) }
				proxy_pass http://app;
			}
			location /exec {
				rewrite_by_lua_block {
					authz.check()
					ngx.exec("/inside")
				}
			}
			location /inside { proxy_pass http://app; }
			location = /admitted { internal; return 204; }
			location /own {
				access_by_lua_block {
					if authz.check().verdict == "limited" then return ngx.exit(429) end
				}
				error_page 429 /own.html;
				proxy_pass http://app;
			}
			location = /own.html { root html; }
			location /captcha {
				access_by_lua_block {
					local d = authz.check()
					if d.verdict == "limited" and not d.again then return ngx.exec("/captcha/asked") end
					authz.apply(d)
				}
				proxy_pass http://app;
			}`,
		Files: map[string]string{"html/own.html": "my own words"},
	})
	for _, target := range []string{"/x", "/sub", "/both", "/exec"} {
		rig.Same(t, target+" "+s.SendAll(t, 4, "GET "+target), target+" 200 200 429 429")
	}
	rig.Same(t, s.Send(t, "GET /x", "").Show("X-Authz-Limit", "RateLimit-Policy"), `429 X-Authz-Limit=two RateLimit-Policy="two";q=2;w=31622400`)
	rig.Same(t, s.Send(t, "GET /exec", "").Show("X-Authz-Limit"), "429 X-Authz-Limit=two")
	rig.Same(t, s.SendAll(t, 3, "GET /own"), "200 200 429")
	rig.Same(t, s.Send(t, "GET /own", "").Body, "my own words")
	rig.Same(t, s.SendAll(t, 4, "GET /captcha"), "200 200 200 200")
	rig.Same(t, fmt.Sprint(s.Asked(t)), "26")
}
