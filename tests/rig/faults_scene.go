package rig

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A Scene is a Redis, the way to it, and the two doors behind which requests are decided with it.
type Scene struct {
	Redis *RedisServer
	Way   *Way
	Doors []*Door
}

// A Door is where requests come in: the service's, or the OpenResty pack's.
type Door struct {
	Name    string
	Get     func(path string, header ...string) (answer string, err error) // what the client sees, and X-Authz-Degraded: "200 local"
	Metrics func(t testing.TB) string
	Close   func() // the connections that wait to be used again
}

func (a *AuthzServer) Door() *Door {
	ask := a.Checker()
	return &Door{
		Name: "service",
		Get: func(path string, header ...string) (string, error) {
			got, err := ask.Try("GET "+path, append(header, "X-Real-IP: 203.0.113.9"), "X-Authz-Degraded")
			return strings.Replace(got, "X-Authz-Degraded=", "", 1), err
		},
		Metrics: func(t testing.TB) string { _, text := a.Get(t, "/metrics"); return text },
		Close:   ask.client.CloseIdleConnections,
	}
}

// Door is that of a pack whose server{} is sayOK.
func (n *NginxServer) Door(t testing.TB) *Door {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}, Timeout: clientTimeout}
	t.Cleanup(client.CloseIdleConnections)
	return &Door{
		Name: "pack",
		Get: func(path string, header ...string) (string, error) {
			request, err := http.NewRequest("GET", "http://"+n.Addr+path, nil)
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
		Metrics: func(t testing.TB) string { return n.Send(t, "GET /metrics", "").Body },
		Close:   client.CloseIdleConnections,
	}
}

// Errors is how many requests Redis could not decide, by kind.
func (d *Door) Errors(t testing.TB) map[string]int {
	t.Helper()
	kinds := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^authz_store_errors_total\{kind="(\w+)"\} (\d+)$`).FindAllStringSubmatch(d.Metrics(t), -1) {
		kinds[m[1]], _ = strconv.Atoi(m[2])
	}
	if len(kinds) == 0 {
		t.Errorf("the metrics of the %s have no store errors", d.Name)
	}
	return kinds
}

// ErrorsSince is the kinds that have come up since before, by name.
func (d *Door) ErrorsSince(t testing.TB, before map[string]int) []string {
	t.Helper()
	now := d.Errors(t)
	maps.DeleteFunc(now, func(kind string, n int) bool { return n == before[kind] })
	return slices.Sorted(maps.Keys(now))
}

// AwaitNormal waits until Redis decides again, for a limit that fails closed while it does not.
func (s *Scene) AwaitNormal(t testing.TB, path string) {
	t.Helper()
	for _, d := range s.Doors {
		Await(t, "answer of Redis through the "+d.Name, func() bool {
			got, err := d.Get(path)
			if err != nil {
				t.Fatal(err)
			}
			return got == "200"
		})
	}
}
