package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// A contestant is one way to answer checks, running.
type contestant struct {
	name string
	addr string
	question
	least     int // requests that it must have seen before it is measured
	processes []*process
	redis     bool   // it asks Redis
	admin     string // of the service: where its metrics are
}

// A starter starts a contestant for a row.
type starter func(*stage, row) (*contestant, error)

// An entry is a contestant that can be had.
type entry struct {
	title string
	start starter
}

// entries are all contestants but those whose binaries are named on the command line.
var entries = map[string]entry{
	"floor":      {"bare fasthttp handler", handlerOf("floor")},
	"plain":      {"one EVALSHA a request", handlerOf("plain")},
	"single":     {"one EVALSHA of token_bucket a request", handlerOf("single")},
	"redis_rate": {"redis_rate", handlerOf("redis_rate")},
	"throttled":  {"throttled", handlerOf("throttled")},
	"ulule":      {"ulule/limiter", handlerOf("ulule")},

	"authz":   {"authz, Redis", service{limits: oneLimit, redis: true}.start},
	"memory":  {"authz, memory store", service{limits: oneLimit}.start},
	"refused": {"authz, refused", service{limits: fiveADay, redis: true, refuses: true}.start},
	"three":   {"authz, three limits", service{limits: threeLimits, redis: true}.start},
	"sliding": {"authz, three limits, one a sliding window", service{limits: threeLimitsOneSliding, redis: true}.start},
	"ten":     {"authz, 10 limits", service{limits: tenLimits, redis: true}.start},
	"many":    {"authz, 1,000 limits and 50,000 overrides", service{limits: manyLimits, redis: true}.start},

	"nginx-floor":   {"auth_request to the bare handler", throughNginx(handlerOf("floor"), bareAuthRequest)},
	"nginx-snippet": {"our includes to the bare handler", throughNginx(handlerOf("floor"), shippedIncludes)},
	"nginx-plain":   {"our includes to one EVALSHA a request", throughNginx(handlerOf("plain"), shippedIncludes)},
	"nginx-authz":   {"our includes to authz, Redis", throughNginx(service{limits: oneLimit, redis: true}.start, shippedIncludes)},
}

// entryOf also knows the rivals of the command line.
func (s *stage) entryOf(name string) (entry, error) {
	if e, ok := entries[name]; ok {
		return e, nil
	}
	if path, ok := s.options.rivals[name]; ok {
		return entry{name, rivalOf(name, path)}, nil
	}
	return entry{}, fmt.Errorf("no contestant is named %q", name)
}

// listenAddr is where the next contestant of a row is to listen.
func (s *stage) listenAddr(r row) (string, error) {
	if r.unix {
		return s.unixAddr()
	}
	return freeAddr()
}

func handlerOf(kind string) starter {
	return func(s *stage, r row) (*contestant, error) {
		addr, err := s.listenAddr(r)
		if err != nil {
			return nil, err
		}
		p, err := s.start("service", addr, exec.Command(s.self, "handler", "-kind", kind, "-listen", addr,
			"-redis", s.redis.addr, "-count", strconv.Itoa(r.rate.count), "-period", r.rate.period.String()))
		if err != nil {
			return nil, err
		}
		return &contestant{addr: addr, question: question{check, http.StatusOK, r.keys}, processes: []*process{p}, redis: kind != "floor"}, nil
	}
}

// A service is `authz serve` with these limits.
type service struct {
	limits  func(rate) string
	redis   bool
	refuses bool
}

func (v service) start(s *stage, r row) (*contestant, error) {
	limits, err := s.write("limits.toml", v.limits(r.rate))
	if err != nil {
		return nil, err
	}
	addr, err := s.listenAddr(r)
	if err != nil {
		return nil, err
	}
	admin, err := freeAddr()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.authz, "serve", "--limits", limits, "--listen", addr, "--admin", admin, "--socket-mode", "0666", "--log-level", "warn")
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "AUTHZ_") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	if v.redis {
		cmd.Args = append(cmd.Args, "--redis", "redis://"+s.redis.addr)
	}
	p, err := s.start("service", addr, cmd)
	if err != nil {
		return nil, err
	}
	c := &contestant{addr: addr, question: question{check, http.StatusOK, r.keys}, processes: []*process{p}, redis: v.redis, admin: admin}
	if v.refuses {
		c.want, c.keys, c.least = http.StatusForbidden, 1000, 10_000
	}
	return c, nil
}

// decided is how many requests the limit api has decided, and how many could not be decided as usual.
func (c *contestant) decided() (decided, degraded float64, err error) {
	resp, err := http.Get("http://" + c.admin + "/metrics")
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, _ := strconv.ParseFloat(value, 64)
		switch {
		case strings.HasPrefix(name, "authz_decisions_total{") && strings.Contains(name, `limit="api"`):
			decided += n
		case strings.HasPrefix(name, "authz_degraded_total{"):
			degraded += n
		}
	}
	return decided, degraded, err
}
