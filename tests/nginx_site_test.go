package tests

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

// siteConf is a site as its owner writes it.
type siteConf struct {
	limits   string            // the limits file
	server   string            // what stands in server{}; `proxy_pass http://app` is the application
	http     string            // more of http{}
	events   string            // what stands in events{}
	redis    *redisServer      // instead of one that is started
	tcp      bool              // authz over TCP, else over a unix socket; both by the shipped files
	upstream string            // upstream authz{} instead of these
	files    map[string]string // beside nginx.conf
	serve    []string          // more of authz serve's command line
	access   string            // what the OpenResty pack does in the access phase, authz.access() if empty
	worker   string            // what the OpenResty module's workers do at their start
	dict     string            // size of the OpenResty pack's shared dict, 32m if empty
}

// site is a Redis, an authz, an application, and an nginx in front of them.
type site struct {
	*nginxServer
	redis *redisServer
	authz *authzServer
	app   *application
}

// closedServer is the least that a user writes.
const closedServer = `
	include authz/authz_server.conf;
	location / { proxy_pass http://app; }`

func startSite(t testing.TB, conf siteConf) *site {
	t.Helper()
	s := &site{redis: conf.redis, app: startApp(t)}
	if s.redis == nil {
		s.redis = startRedis(t)
	}
	listen, upstream, shipped := "127.0.0.1:0", "authz_upstream_tcp.conf", "127.0.0.1:7429"
	if !conf.tcp {
		listen, upstream, shipped = "unix:"+filepath.Join(socketDir(t), "authz.sock"), "authz_upstream_unix.conf", "unix:/run/authz/authz.sock"
	}
	// A busy machine may keep Redis from answering for long; then the counts would not be Redis's.
	s.authz = startAuthz(t, append(conf.serve, "--redis-timeout=20s", "--listen="+listen,
		"--limits="+limitsFile(t, conf.limits), "--redis="+s.redis.url())...)
	if conf.upstream == "" {
		conf.upstream = edited(t, upstream, "server "+shipped+";", "server "+s.authz.addr+";")
	}
	s.nginxServer = startNginx(t, s.httpConf(conf), conf.files, conf.events)
	return s
}

// httpConf is what stands in http{}: the two includes, the application and the server.
func (s *site) httpConf(conf siteConf) string {
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
		}`, conf.upstream, s.app.addr, conf.http, conf.server)
}

// edited is one of the shipped files with what cannot be the same in a test replaced, in pairs.
func edited(t testing.TB, name string, pairs ...string) string {
	t.Helper()
	text := shippedIncludes(t)["authz/"+name]
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s has no %q", name, pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// counted is how much the bucket of a fixed_window limit holds: what was charged.
func (s *site) counted(t testing.TB, redisKey string) int {
	t.Helper()
	state, err := s.redis.Get(context.Background(), redisKey).Result()
	if err != nil {
		return 0
	}
	count, err := strconv.Atoi(state[strings.LastIndexByte(state, ':')+1:])
	if err != nil {
		t.Fatalf("%s holds %q", redisKey, state)
	}
	return count
}

// keys are the buckets that there are; the epoch of the refusal caches is none.
func (s *site) keys(t testing.TB) []string {
	t.Helper()
	keys, err := s.redis.Keys(context.Background(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":epoch") })
}

// asked is how many requests Redis decided: the EVALSHA it ran.
func (s *site) asked(t testing.TB) int {
	t.Helper()
	return s.redis.calls(t, "evalsha")
}

// countLines is how many lines of text have this in them.
func countLines(text, word string) int {
	count := 0
	for line := range strings.Lines(text) {
		if strings.Contains(line, word) {
			count++
		}
	}
	return count
}

// sendAll is the statuses of count equal requests.
func (s *site) sendAll(t testing.TB, count int, line string, header ...string) string {
	t.Helper()
	var got []string
	for range count {
		got = append(got, fmt.Sprint(s.send(t, line, "", header...).status))
	}
	return strings.Join(got, " ")
}

// application is what nginx protects. It says what it was asked: "app GET /x?y 0 bytes". A path
// /status/N makes it answer N of its own, a query set=NAME:VALUE gives the answer that header, a query
// echo=NAME adds what it got in that header.
type application struct {
	addr  string
	asked atomic.Int64
}

func startApp(t testing.TB) *application {
	t.Helper()
	app := &application{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		app.asked.Add(1)
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
	app.addr = strings.TrimPrefix(server.URL, "http://")
	return app
}
