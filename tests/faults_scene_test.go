package tests

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A scene is a Redis, the way to it, and the two doors behind which requests are decided with it.
type scene struct {
	redis *redisServer
	way   *way
	doors []*door
}

// A door is where requests come in: the service's, or the OpenResty pack's.
type door struct {
	name    string
	get     func(path string, header ...string) (answer string, err error) // what the client sees, and X-Authz-Degraded: "200 local"
	metrics func(t testing.TB) string
	close   func() // the connections that wait to be used again
}

// address is where Redis is, and who asks it.
type address struct{ port, socket, user, password string }

func (a address) url() string {
	login := ""
	if a.user != "" {
		login = a.user + ":" + a.password + "@"
	}
	if a.socket != "" {
		return "unix://" + login + a.socket
	}
	return "redis://" + login + "127.0.0.1:" + a.port
}

// options is the same for the pack.
func (a address) options(timeout time.Duration) string {
	text := fmt.Sprintf(`timeout = "%dms"`, timeout.Milliseconds())
	if a.user != "" {
		text += fmt.Sprintf(`, user = %q, password = %q`, a.user, a.password)
	}
	if a.socket != "" {
		return fmt.Sprintf(`redis = {socket = %q, %s}`, a.socket, text)
	}
	return fmt.Sprintf(`redis = {host = "127.0.0.1", port = %s, %s}`, a.port, text)
}

// startDoors starts both, on the same limits and the same Redis.
func startDoors(t testing.TB, limits string, at address, timeout time.Duration) []*door {
	t.Helper()
	service := startAuthz(t, "--limits="+limitsFile(t, limits), "--redis="+at.url(), fmt.Sprint("--redis-timeout=", timeout))
	pack := startPack(t, nil, at.options(timeout), siteConf{limits: limits, server: sayOK})
	pack.mayLog = []string{"connect() to unix:"} // nginx logs it whatever the pack says
	return []*door{service.door(), pack.door(t)}
}

func (a *authzServer) door() *door {
	ask := a.checker()
	return &door{
		name: "service",
		get: func(path string, header ...string) (string, error) {
			got, err := ask.try("GET "+path, append(header, "X-Real-IP: 203.0.113.9"), "X-Authz-Degraded")
			return strings.Replace(got, "X-Authz-Degraded=", "", 1), err
		},
		metrics: func(t testing.TB) string { _, text := a.get(t, "/metrics"); return text },
		close:   ask.client.CloseIdleConnections,
	}
}

// door is that of a pack whose server{} is sayOK.
func (n *nginxServer) door(t testing.TB) *door {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: clientTimeout}
	t.Cleanup(client.CloseIdleConnections)
	return &door{
		name: "pack",
		get: func(path string, header ...string) (string, error) {
			request, err := http.NewRequest("GET", "http://"+n.addr+path, nil)
			if err != nil {
				return "", err
			}
			for _, h := range header {
				name, value, _ := strings.Cut(h, ": ")
				request.Header.Set(name, value)
			}
			response, err := client.Do(request)
			if err != nil {
				return "", err
			}
			response.Body.Close()
			return strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", response.Header.Get("X-Seen"))), nil
		},
		metrics: func(t testing.TB) string { return n.send(t, "GET /metrics", "").body },
		close:   client.CloseIdleConnections,
	}
}

// errors is how many requests Redis could not decide, by kind.
func (d *door) errors(t testing.TB) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^authz_store_errors_total\{kind="(\w+)"\} (\d+)$`).FindAllStringSubmatch(d.metrics(t), -1) {
		kinds[m[1]], _ = strconv.Atoi(m[2])
	}
	if len(kinds) == 0 {
		t.Errorf("the metrics of the %s have no store errors", d.name)
	}
	return kinds
}

// errorsSince is the kinds that have come up since before, by name.
func (d *door) errorsSince(t testing.TB, before map[string]int) []string {
	t.Helper()
	now := d.errors(t)
	maps.DeleteFunc(now, func(kind string, n int) bool { return n == before[kind] })
	return slices.Sorted(maps.Keys(now))
}

// awaitNormal waits until Redis decides again, for a limit that fails closed while it does not.
func (s *scene) awaitNormal(t testing.TB, path string) {
	t.Helper()
	for _, d := range s.doors {
		await(t, "answer of Redis through the "+d.name, func() bool {
			got, err := d.get(path)
			if err != nil {
				t.Fatal(err)
			}
			return got == "200"
		})
	}
}
