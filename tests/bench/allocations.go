package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
)

// A goBenchmark is a Go benchmark of the project, and how often what it does may allocate.
type goBenchmark struct {
	what, room, name string
	most             float64
}

var goBenchmarks = []goBenchmark{
	{"match", "./limits", "BenchmarkMatch", 0},
	{"decision", "./internal/service", "BenchmarkDecide", 0},
	{"memory store", "./internal/store", "BenchmarkMemoryTake", 0},
	{"Redis, 64 callers", "./tests/redis", "BenchmarkTakeRedis/take/callers=64", 2},
}

// allocations runs them.
func (s *stage) allocations() ([]finding, error) {
	var all []finding
	for _, g := range goBenchmarks {
		pattern := "^" + strings.ReplaceAll(g.name, "/", "$/^") + "$"
		cmd := exec.CommandContext(s.ctx, "go", "test", "-run", "^$", "-bench", pattern, "-benchmem", "-benchtime", "20000x", g.room)
		cmd.Dir = s.root
		text, err := cmd.CombinedOutput()
		if err != nil {
			return all, fmt.Errorf("%s: %w\n%s", cmd, err, text)
		}
		f := finding{what: "heap allocations a check: " + g.what, bound: bound{value: g.most, unit: "allocations"}}
		for line := range strings.Lines(string(text)) {
			n, ok := perOp(line, "allocs/op")
			if !ok || !strings.HasPrefix(line, "Benchmark") {
				continue
			}
			if f.rounds == 0 {
				f.low, f.high = n, n
			}
			f.low, f.high, f.rounds = min(f.low, n), max(f.high, n), f.rounds+1
		}
		f.value = f.high
		all = append(all, f)
	}
	return all, nil
}

// perOp finds a number by its unit in a line that `go test -bench` prints.
func perOp(line, unit string) (float64, bool) {
	fields := strings.Fields(line)
	for i := 1; i < len(fields); i++ {
		if fields[i] == unit {
			n, err := strconv.ParseFloat(fields[i-1], 64)
			return n, err == nil
		}
	}
	return 0, false
}
