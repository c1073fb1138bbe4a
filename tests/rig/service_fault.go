package rig

import (
	"strings"
	"syscall"
	"testing"
)

// ThreeAnswers is a limit of each on_error, and paths under several of them.
const ThreeAnswers = `
	[defaults]
	replicas = 4
	[limit.allow]
	match     = { path = ["/allow", "/allow-local", "/all"] }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "100/d"
	on_error  = "allow"
	[limit.local]
	match     = { path = ["/local", "/allow-local", "/all"] }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "12/d"
	[limit.deny]
	match     = { path = ["/deny", "/all"] }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "100/d"
	on_error  = "deny"
	[limit.watch]
	match     = { path = "/**" }
	key       = ["ip"]
	algorithm = "sliding_window"
	rate      = "1/d"
	on_error  = "deny"
	mode      = "shadow"`

// StopUnder stops a Redis under who has the limits of threeAnswers, and asks what there is to ask then.
func (r *RedisServer) StopUnder(t *testing.T, ask func(path string) string) {
	t.Helper()
	check := func(path, want string) {
		t.Helper()
		got, _, _ := strings.Cut(ask(path), ";t=")
		Same(t, path+" "+got, path+" "+want)
	}
	check("/all", `200 X-Authz-Limit=local RateLimit="local";r=11`)
	r.Signal(t, syscall.SIGSTOP)
	check("/allow", `200 X-Authz-Limit=allow X-Authz-Degraded=allow`)
	check("/local", `200 X-Authz-Limit=local X-Authz-Degraded=local RateLimit="local";r=2`)
	check("/allow-local", `200 X-Authz-Limit=local X-Authz-Degraded=local RateLimit="local";r=1`)
	check("/all", `503 X-Authz-Limit=deny X-Authz-Degraded=deny Retry-After=1`)
	check("/local", `200 X-Authz-Limit=local X-Authz-Degraded=local RateLimit="local";r=0`)
	check("/local", `429 X-Authz-Limit=local X-Authz-Degraded=local RateLimit="local";r=0`)
	check("/free", `200`) // only a shadow meets it, and a shadow does not degrade
}
