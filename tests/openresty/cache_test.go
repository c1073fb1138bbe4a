package openresty

import (
	"fmt"
	"testing"

	"authz/tests/rig"
)

// A cache in front of nginx gives no client's refusal, and no client's numbers, to the next.
func TestARefusalOfTheModuleIsForNoCache(t *testing.T) {
	r := rig.StartRedis(t)
	s := rig.StartPack(t, r, "admitted_headers = true", rig.SiteConf{Limits: `
		[limit.one]
		match = { path = "/one" }
		key = []
		algorithm = "fixed_window"
		rate = "1/366d"
		on_error = "deny"
		[deny.ruled]
		match = { path = "/ruled" }`, Server: `
		root html;
		error_page 429 /slow.html;
		location / { proxy_pass http://app; }
		location = /slow.html { }`, Files: map[string]string{"html/slow.html": "slow down"}})
	is := func(target, want string) {
		t.Helper()
		got := s.Send(t, "GET "+target, "")
		rig.Same(t, fmt.Sprint(target, " ", got.Status, " ", got.Header.Values("Cache-Control")), target+" "+want)
	}
	is("/one", "200 [private]")
	is("/one", "429 [no-store]")
	is("/ruled", "403 [no-store]")
	is("/free", "200 []")
	r.Del(t.Context(), "authz:v1:{one}:one:fw")
	r.LPush(t.Context(), "authz:v1:{one}:one:fw", "no bucket")
	is("/one", "503 [no-store]")
}
