package main

import (
	"fmt"
	"strings"
)

// breakdown says where the time of an admitted check goes, by what contestants that do ever more take
// beside each other, and what a target would leave for it. It is empty without the rows redis and memory.
func (r *report) breakdown() string {
	redis, memory := r.samples["redis"], r.samples["memory"]
	for _, runs := range [][]sample{redis["floor"], redis["authz"], memory["floor"], memory["refused"], memory["memory"]} {
		if len(runs) == 0 {
			return ""
		}
	}
	cpu := func(runs []sample, process string) float64 {
		return median(runs, metric{of: func(s sample) float64 { return s.cpu[process] }})
	}
	scripts := median(redis["authz"], metric{of: func(s sample) float64 { return s.redisUS }})
	floor, service := cpu(redis["floor"], "service"), cpu(redis["authz"], "service")
	read := cpu(memory["refused"], "service") - cpu(memory["floor"], "service")
	decide := cpu(memory["memory"], "service") - cpu(memory["refused"], "service")

	var b strings.Builder
	b.WriteString("\n**Where the time of an admitted check goes**, CPU µs, from the rows `redis` and `memory`\n\n| part | µs |\n|---|---:|\n")
	for _, part := range []struct {
		name string
		us   float64
	}{
		{"the bare handler: HTTP, and the kernel's part of reading and writing", floor},
		{"attributes, match, headers, metrics (*refused* beyond the handler)", read},
		{"a decision in memory (*memory store* beyond *refused*)", decide},
		{"the way to Redis and back: its share of a call, waiting and waking (the service beyond that)", service - floor - read - decide},
		{fmt.Sprintf("Redis, of which %.1f by its own clock in the script", scripts), cpu(redis["authz"], "Redis")},
	} {
		fmt.Fprintf(&b, "| %s | %.1f |\n", part.name, part.us)
	}
	load := cpu(redis["authz"], "load")
	fmt.Fprintf(&b, "\n0.80 of the floor's throughput would leave %.1f µs a check for all but the handler and the load, "+
		"and 1.45 of its CPU %.1f µs.\n", (floor+cpu(redis["floor"], "load"))/0.80-floor-load, 0.45*floor)
	return b.String()
}
