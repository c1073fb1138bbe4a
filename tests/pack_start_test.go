package tests

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// startPack starts an nginx of two workers in which the OpenResty pack decides, with an application behind
// it: in Redis, or alone when r is nil. options is what stands in new{} beside policy, metrics and redis.
func startPack(t testing.TB, r *redisServer, options string, conf siteConf) *site {
	t.Helper()
	s := &site{redis: r, app: startApp(t)}
	if r != nil {
		options = fmt.Sprintf(`redis = {socket = "%s", timeout = "20s"}, %s`, r.socket, options)
	}
	files := map[string]string{"limits.json": string(compile(t, conf.limits).JSON())}
	maps.Copy(files, conf.files)
	s.nginxServer = startPackNginx(t, 2, s.packConf(options, conf), files)
	return s
}

// packConf is what stands in http{}.
func (s *site) packConf(options string, conf siteConf) string {
	if conf.server == "" {
		conf.server = `location / { proxy_pass http://app; }`
	}
	if conf.dict == "" {
		conf.dict = "32m"
	}
	if conf.access == "" {
		conf.access = "authz.access()"
	}
	return fmt.Sprintf(`
		lua_shared_dict authz %s;
		lua_shared_dict authz_metrics 1m;
		log_format authz "$request_uri $status $authz_status $authz_limit $authz_degraded";
		access_log access.log authz;
		init_by_lua_block {
			authz = assert(require("resty.authz").new{
				policy = ngx.config.prefix() .. "limits.json",
				metrics = "authz_metrics",
				%s
			})
		}
		init_worker_by_lua_block {
			authz.init_worker()
			%s
		}
		access_by_lua_no_postpone on;
		upstream app { server %s; keepalive 16; }
		%s
		server {
			listen LISTEN;
			listen LISTEN_H2 http2;
			include authz/openresty.conf;
			access_by_lua_block { %s }
			location = /metrics {
				access_by_lua_block { }
				content_by_lua_block { authz.metrics() }
			}
			%s
		}`, conf.dict, options, conf.worker, s.app.addr, conf.http, conf.access, conf.server)
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
