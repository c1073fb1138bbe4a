package tests

import (
	"fmt"
	"strings"
	"testing"
)

// startPack starts an nginx of two workers in which the OpenResty pack decides: by the limits of a TOML
// text, with what options says beside policy and metrics. server is what stands in server{}.
func startPack(t testing.TB, toml, options, server string) *nginxServer {
	t.Helper()
	return startPackNginx(t, 2, packConf(options, server), map[string]string{"limits.json": string(compile(t, toml).JSON())})
}

func packConf(options, server string) string {
	return fmt.Sprintf(`
		lua_shared_dict authz 32m;
		lua_shared_dict authz_metrics 1m;
		log_format authz "$request $status $authz_status $authz_limit $authz_degraded";
		access_log access.log authz;
		init_by_lua_block {
			authz = assert(require("resty.authz").new{
				policy = ngx.config.prefix() .. "limits.json",
				metrics = "authz_metrics",
				%s
			})
		}
		server {
			listen LISTEN;
			listen LISTEN_H2 http2;
			include authz/openresty.conf;
			access_by_lua_block { authz.access() }
			location = /metrics {
				access_by_lua_block { }
				content_by_lua_block { authz.metrics() }
			}
			%s
		}`, options, server)
}

// sayOK is a location that answers 200.
const sayOK = `location / { content_by_lua_block { ngx.print("ok") } }`

// redisOption is the option that names a Redis.
func redisOption(r *redisServer) string {
	return fmt.Sprintf(`redis = {socket = "%s", timeout = "5s"},`, r.socket)
}

// metric is the number of a series, such as `authz_requests_total{verdict="limited"}`.
func (n *nginxServer) metric(t testing.TB, series string) string {
	t.Helper()
	for line := range strings.Lines(n.send(t, "GET /metrics", "").body) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	t.Errorf("no series %s", series)
	return ""
}
