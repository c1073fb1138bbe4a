package rig

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// SiteConf is a site as its owner writes it.
type SiteConf struct {
	Limits   string            // the limits file
	Server   string            // what stands in server{}; `proxy_pass http://app` is the application
	Http     string            // more of http{}
	Events   string            // what stands in events{}
	Redis    *RedisServer      // instead of one that is started
	Tcp      bool              // authz over TCP, else over a unix socket; both by the shipped files
	Upstream string            // upstream authz{} instead of these
	Files    map[string]string // beside nginx.conf
	Serve    []string          // more of authz serve's command line
	Access   string            // what the OpenResty pack does in the access phase, authz.access() if empty
	Worker   string            // what the OpenResty module's workers do at their start
	Dict     string            // size of the OpenResty pack's shared dict, 32m if empty
}

// Site is a Redis, an authz, an application, and an nginx in front of them.
type Site struct {
	*NginxServer
	Redis *RedisServer
	Authz *AuthzServer
	App   *application
}

// ClosedServer is the least that a user writes.
const ClosedServer = `
	include authz/authz_server.conf;
	location / { proxy_pass http://app; }`

func StartSite(t testing.TB, conf SiteConf) *Site {
	t.Helper()
	s := &Site{Redis: conf.Redis, App: StartApp(t)}
	if s.Redis == nil {
		s.Redis = StartRedis(t)
	}
	listen, upstream, shipped := "127.0.0.1:0", "authz_upstream_tcp.conf", "127.0.0.1:7429"
	if !conf.Tcp {
		listen, upstream, shipped = "unix:"+filepath.Join(SocketDir(t), "authz.sock"), "authz_upstream_unix.conf", "unix:/run/authz/authz.sock"
	}
	// A busy machine may keep Redis from answering for long; then the counts would not be Redis's.
	s.Authz = StartAuthz(t, append(conf.Serve, "--redis-timeout=20s", "--listen="+listen,
		"--limits="+LimitsFile(t, conf.Limits), "--redis="+s.Redis.URL())...)
	if conf.Upstream == "" {
		conf.Upstream = Edited(t, upstream, "server "+shipped+";", "server "+s.Authz.Addr+";")
	}
	s.NginxServer = StartNginx(t, s.httpConf(conf), conf.Files, conf.Events)
	return s
}

// httpConf is what stands in http{}: the two includes, the application and the server.
func (s *Site) httpConf(conf SiteConf) string {
	return fmt.Sprintf(`
		include authz/authz.conf;
		%s
		upstream app { server %s; }
		%s
		server {
			%s
			listen LISTEN;
			listen LISTEN_H2 http2;
			server_name site.test;
		}`, conf.Upstream, s.App.Addr, conf.Http, conf.Server)
}

// Edited is one of the shipped files with what cannot be the same in a test replaced, in pairs.
func Edited(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	text := ShippedIncludes(t)["authz/"+name]
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", name, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// Counted is how much the bucket of a fixed_window limit holds: what was charged.
func (s *Site) Counted(t testing.TB, redisKey string) int {
	t.Helper()
	state, err := s.Redis.Get(context.Background(), redisKey).Result()
	if err != nil {
		return 0
	}
	count, err := strconv.Atoi(state[strings.LastIndexByte(state, ':')+1:])
	if err != nil {
		t.Fatalf("%s holds %q", redisKey, state)
	}
	return count
}

// Keys are the buckets that there are; the epoch of the refusal caches is none.
func (s *Site) Keys(t testing.TB) []string {
	t.Helper()
	keys, err := s.Redis.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":epoch") })
}

// Asked is how many requests Redis decided: the EVALSHA it ran.
func (s *Site) Asked(t testing.TB) int {
	t.Helper()
	return s.Redis.Calls(t, "evalsha")
}

// CountLines is how many lines of text have this in them.
func CountLines(text, word string) int {
	count := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			count++
		}
	}
	return count
}

// SendAll is the statuses of count equal requests.
func (s *Site) SendAll(t testing.TB, count int, line string, header ...string) string {
	t.Helper()
	var got []string
	for range count {
		got = append(got, fmt.Sprint(s.Send(t, line, "", header...).Status))
	}
	return strings.Join(got, " ")
}

// application is what nginx protects. It says what it was asked: "app GET /x?y 0 bytes". A path
// /status/N makes it answer N of its own, a query set=NAME:VALUE gives the answer that header, a query
// echo=NAME adds what it got in that header.
type application struct {
	Addr  string
	Asked atomic.Int64
}

func StartApp(t testing.TB) *application {
	t.Helper()
	app := &application{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.Asked.Add(1)
		size, _ := io.Copy(io.Discard, r.Body)
		if header, ok := strings.CutPrefix(r.URL.RawQuery, "set="); ok {
			name, value, _ := strings.Cut(header, ":")
			w.Header().Set(name, value)
		}
		if code, ok := strings.CutPrefix(r.URL.Path, "/status/"); ok {
			status, _ := strconv.Atoi(code)
			w.WriteHeader(status)
			fmt.Fprintf(w, "the application's own %d", status)
			return
		}
		fmt.Fprintf(w, "app %s %s %d bytes", r.Method, r.RequestURI, size)
		if name, ok := strings.CutPrefix(r.URL.RawQuery, "echo="); ok {
			fmt.Fprintf(w, " %q", r.Header[name])
		}
	}))
	t.Cleanup(server.Close)
	app.Addr = strings.TrimPrefix(server.URL, "http://")
	return app
}
