package main

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// A machine is where and with what it was measured, a line a fact.
type machine []string

func machineNow(s *stage) machine {
	said := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = s.root
		text, _ := cmd.CombinedOutput()
		first, _, _ := strings.Cut(string(text), "\n")
		return first
	}
	load, _ := os.ReadFile("/proc/loadavg")
	load, _, _ = bytes.Cut(load, []byte(" "))
	m := machine{
		cpuModel() + ", " + plural(runtime.NumCPU(), "core") + ", Linux " + said("uname", "-r") + ", load average " + string(load) + " before the first run",
		"authz " + said("git", "describe", "--always", "--dirty") + ", " + runtime.Version(),
		said("redis-server", "--version"),
		said("nginx", "-v"),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		var versions []string
		for _, d := range info.Deps {
			for _, name := range []string{"valyala/fasthttp", "redis/go-redis/v9", "redis_rate", "throttled", "ulule/limiter"} {
				if strings.Contains(d.Path, name) {
					versions = append(versions, d.Path+" "+d.Version)
				}
			}
		}
		m = append(m, strings.Join(versions, ", "))
	}
	return m
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
