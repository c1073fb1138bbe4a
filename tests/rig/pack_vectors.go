package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"authz/internal/store"
	"authz/limits"
)

// PackStores are the two stores of the OpenResty pack, in an nginx of two workers.
type PackStores struct {
	*NginxServer
	Client http.Client
}

// StartPackStores has a Redis store at /redis, one for each of redisOptions at /redis/NAME, and the store
// in a shared dict at /shdict.
func StartPackStores(t testing.TB, r *RedisServer, redisOptions ...string) *PackStores {
	t.Helper()
	p := &PackStores{NginxServer: StartPackNginx(t, 2, fmt.Sprintf(`
		lua_shared_dict authz 32m;
		init_by_lua_block { require("driver").start({[""] = {socket = "%s", timeout = "10s"}, %s}) }
		server {
			listen LISTEN;
			keepalive_requests 1000000;
			client_body_buffer_size 64k;
			lua_socket_log_errors off;
			location ~ ^/redis/?(.*)$ {
				content_by_lua_block { local d = require "driver"; d.take(d.redis[ngx.var[1]]) }
			}
			location /shdict { content_by_lua_block { local d = require "driver"; d.take(d.shdict) } }
			location /flush { content_by_lua_block { ngx.shared.authz:flush_all() ngx.shared.authz:flush_expired() } }
			location /scripts { content_by_lua_block { require("driver").list() } }
		}`, r.Socket, strings.Join(redisOptions, ", ")), nil)}
	p.Client.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(p.Client.CloseIdleConnections)
	return p
}

// Post sends a body on a connection that is used again, and returns the status and the answer.
func (p *PackStores) Post(path, body string) (int, string, error) {
	response, err := p.Client.Post("http://"+p.Addr+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// A PackStore is one of them, as a Store.
type PackStore struct {
	*PackStores
	Path string
}

func (p PackStore) Take(_ context.Context, nowUS int64, checks []limits.Check, peek bool, dst []store.Result) ([]store.Result, error) {
	status, text, err := p.Post(p.Path, takeJSON(nowUS, checks, peek))
	if err != nil {
		return dst, err
	}
	if status == 503 {
		return dst, packError(strings.TrimSpace(text))
	}
	if status != 200 {
		return dst, fmt.Errorf("nginx answers %d %s", status, text)
	}
	lines := bytes.NewBufferString(text)
	for range checks {
		var r store.Result
		var allowed int
		if _, err := fmt.Fscanln(lines, &allowed, &r.Remaining, &r.WaitUS, &r.ResetUS); err != nil {
			return dst, fmt.Errorf("%w in %q", err, text)
		}
		r.Allowed = allowed == 1
		dst = append(dst, r)
	}
	return dst, nil
}

// packError is a failure of Redis, by its kind.
type packError string

func (e packError) Error() string { return string(e) }

// Kind takes and says what came of it.
func (p PackStore) Kind(checks ...limits.Check) string {
	results, err := p.Take(context.Background(), 0, checks, false, nil)
	switch {
	case err != nil:
		return err.Error()
	case Admitted(checks, results):
		return "admitted"
	}
	return "refused"
}

// takeJSON is what tests/lua/driver.lua is sent: limits as compiled JSON has them.
func takeJSON(nowUS int64, checks []limits.Check, peek bool) string {
	rows := []any{}
	for _, c := range checks {
		rows = append(rows, map[string]any{
			"limit": map[string]any{"name": c.Limit.Name, "algorithm": c.Limit.Algorithm.String(), "shadow": c.Limit.Shadow},
			"rate":  map[string]any{"limit": c.Rate.Count, "window_us": c.Rate.WindowUS, "offset_us": c.Rate.OffsetUS, "burst": c.Rate.Burst, "initial": c.Rate.Initial, "n": c.Rate.N, "w": c.Rate.W, "capacity": c.Rate.Capacity},
			"key":   string(c.Key), "cost": c.Cost,
		})
	}
	text, err := json.Marshal(map[string]any{"now_us": nowUS, "checks": rows, "peek": peek})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return string(text)
}

// packBody is a body of the vectors: one of the pack's stores.
func packBody(path string) func(*testing.T) func(*testing.T) Taker {
	return func(t *testing.T) func(*testing.T) Taker {
		r := StartRedis(t)
		p := StartPackStores(t, r)
		return func(t *testing.T) Taker {
			r.Flush(t)
			if status, text, err := p.Post("/flush", ""); status != 200 || err != nil {
				t.Fatal(status, text, err)
			}
			return StoreTaker(PackStore{p, path})
		}
	}
}
