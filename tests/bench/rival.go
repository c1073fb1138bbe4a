package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// envoy is the rival whose configuration and questions are known here.
const envoy = "envoyproxy/ratelimit"

// rivalOf starts a binary of the command line. Another than envoy is started as `PATH LISTEN REDIS`, may
// be a script around something else, and is asked what the service is asked.
func rivalOf(name, path string) starter {
	return func(s *stage, r row) (*contestant, error) {
		if name == envoy {
			return startEnvoy(s, r, path)
		}
		addr, err := freeAddr()
		if err != nil {
			return nil, err
		}
		p, err := s.start("service", addr, exec.Command(path, addr, s.redis.addr))
		if err != nil {
			return nil, err
		}
		return &contestant{addr: addr, question: question{check, http.StatusOK, r.keys}, processes: []*process{p}, redis: true}, nil
	}
}

const envoyLimits = `domain: bench
descriptors:
  - key: ip
    rate_limit:
      unit: day
      requests_per_unit: 100000000
`

// startEnvoy starts envoyproxy/ratelimit as its README does. It is asked over HTTP: gRPC is what Envoy
// speaks, and costs it about as much.
func startEnvoy(s *stage, r row, path string) (*contestant, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "bench", "config")
	if err := os.MkdirAll(config, 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(config, "bench.yaml"), []byte(envoyLimits), 0o644); err != nil {
		return nil, err
	}
	var addrs, ports [3]string
	for i := range addrs {
		if addrs[i], err = freeAddr(); err != nil {
			return nil, err
		}
		_, ports[i], _ = strings.Cut(addrs[i], ":")
	}
	cmd := exec.Command(path)
	cmd.Env = append(os.Environ(), "USE_STATSD=false", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+s.redis.addr,
		"RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=bench", "RUNTIME_WATCH_ROOT=false",
		"HOST=127.0.0.1", "GRPC_HOST=127.0.0.1", "DEBUG_HOST=127.0.0.1",
		"PORT="+ports[0], "GRPC_PORT="+ports[1], "DEBUG_PORT="+ports[2])
	p, err := s.start("service", addrs[0], cmd)
	if err != nil {
		return nil, err
	}
	return &contestant{addr: addrs[0], question: question{envoyQuestion(), http.StatusOK, r.keys}, processes: []*process{p}, redis: true}, nil
}
