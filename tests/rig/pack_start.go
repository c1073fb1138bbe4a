package rig

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// StartPack starts an nginx of two workers in which the OpenResty pack decides, with an application behind
// it: in Redis, or alone when r is nil. options is what stands in new{} beside policy, metrics and redis.
func StartPack(t testing.TB, r *RedisServer, options string, conf SiteConf) *Site {
	t.Helper()
	s := &Site{Redis: r, App: StartApp(t)}
	if r != nil {
		options = fmt.Sprintf(`redis = {socket = "%s", timeout = "20s"}, %s`, r.Socket, options)
	}
	files := map[string]string{"limits.json": string(Compile(t, conf.Limits).JSON())}
	maps.Copy(files, conf.Files)
	s.NginxServer = StartPackNginx(t, 2, s.PackConf(options, conf), files)
	return s
}

// PackConf is what stands in http{}.
func (s *Site) PackConf(options string, conf SiteConf) string {
	if conf.Server == "" {
		conf.Server = `location / { proxy_pass http://app; }`
	}
	if conf.Dict == "" {
		conf.Dict = "32m"
	}
	if conf.Access == "" {
		conf.Access = "authz.access()"
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
		}`, conf.Dict, options, conf.Worker, s.App.Addr, conf.Http, conf.Access, conf.Server)
}

// Metric is the number of a series, such as `authz_requests_total{verdict="limited"}`.
func (n *NginxServer) Metric(t testing.TB, series string) string {
	t.Helper()
	for line := range strings.Lines(n.Send(t, "GET /metrics", "").Body) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strings.TrimSpace(value)
		}
	}
	t.Errorf("no series %s", series)
	return ""
}
