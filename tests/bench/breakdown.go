package main

import (
	"fmt"
	"slices"
	"strings"
)

// breakdown says where the time of an admitted check goes, by what contestants that do ever more take
// beside each other. It is empty without the rows redis and memory.
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
	return b.String()
}

// budgets says of each target for a ratio how much CPU it leaves for whatever is done beyond the contestant
// compared with, and what was taken for that. It is empty when nothing was measured.
//
// In a closed loop that uses all cores, requests a second are the inverse of all CPU a request, the load's
// among it.
func (r *report) budgets() string {
	var b strings.Builder
	for _, t := range targets {
		all := r.samples[t.row]
		t = t.against(r.rowOf(t), all)
		if t.to == "" || t.metric.name == p99.name || t.metric.name == redisCPU.name || len(all[t.of]) == 0 || len(all[t.to]) == 0 {
			continue
		}
		counted, share := cpuNames, 1/t.bound.value
		if t.metric.name == serverCPU.name {
			counted, share = cpuNames[:len(cpuNames)-1], t.bound.value
		}
		base, more, cells := 0.0, 0.0, ""
		for _, process := range cpuNames {
			of := metric{of: func(s sample) float64 { return s.cpu[process] }}
			was, is := median(all[t.to], of), median(all[t.of], of)
			if !slices.Contains(counted, process) || was == 0 && is == 0 {
				cells += " |"
				continue
			}
			base, more = base+was, more+is-was
			cells += fmt.Sprintf(" %+.1f |", is-was)
		}
		fmt.Fprintf(&b, "| %s %s | %.1f | %+.1f | %+.1f |%s\n", t.what(), t.bound, base, base*(share-1), more, cells)
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n**What the targets leave, and what was taken**, CPU µs a request beyond the one compared with\n\n" +
		"| compared, target | that one takes | target leaves | taken | of it nginx | service | Redis | load |\n" +
		"|---|---:|---:|---:|---:|---:|---:|---:|\n" + b.String()
}
