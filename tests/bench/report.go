package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A report is all that was measured.
type report struct {
	machine machine
	options options
	rows    []row
	samples map[string]samples // by row
	failed  map[string]error   // by row
	others  []finding          // memory and allocations
}

// add ends the line that says what is measured.
func (r *report) add(name string, err error) {
	fmt.Fprintln(os.Stderr)
	if err != nil {
		r.failed[name] = err
		fmt.Fprintf(os.Stderr, "%-12s failed: %v\n", name, err)
	}
}

// findings are the targets in the order of their table, then memory and allocations.
func (r *report) findings() []finding {
	var all []finding
	for _, t := range targets {
		all = append(all, t.find(r.rowOf(t), r.samples[t.row]))
	}
	return append(all, r.others...)
}

func (r *report) rowOf(t target) row {
	return r.rows[slices.IndexFunc(r.rows, func(row row) bool { return row.name == t.row })]
}

// summary says in a few lines which targets are met.
func (r *report) summary() string {
	var b strings.Builder
	met, measured := 0, 0
	for _, f := range r.findings() {
		word := "MISSED"
		switch {
		case f.rounds == 0:
			word = "not measured"
		case f.met():
			word = "met"
			met++
		}
		if f.rounds > 0 {
			measured++
		}
		fmt.Fprintf(&b, "%-12s  %-28s want %-12s %s\n", word, f.shown(), f.bound, f.what)
	}
	fmt.Fprintf(&b, "%d of %d targets measured, %d met\n", measured, len(r.findings()), met)
	return b.String()
}

// shown is the median and the range of the rounds.
func (f finding) shown() string {
	switch {
	case f.rounds == 0:
		return "-"
	case f.low == f.high:
		return f.bound.show(f.value)
	}
	return fmt.Sprintf("%s (%s–%s)", f.bound.show(f.value), f.bound.show(f.low), f.bound.show(f.high))
}

// markdown is what docs/performance.md shows between its marks.
func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "`make bench`: %s of %v for every contestant of a row, in turn.\n\n", plural(r.options.rounds, "round"), r.options.length)
	for _, line := range r.machine {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n| compared | target | measured: median (the rounds) | |\n|---|---|---|---|\n")
	for _, f := range r.findings() {
		word := "missed"
		switch {
		case f.rounds == 0:
			word = "not measured"
		case f.met():
			word = "met"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.what, f.bound, f.shown(), word)
	}
	b.WriteString(r.breakdown())
	b.WriteString(r.budgets())
	for _, row := range r.rows {
		if all := r.samples[row.name]; len(all) > 0 {
			r.writeRow(&b, row, all)
		}
		if err := r.failed[row.name]; err != nil {
			fmt.Fprintf(&b, "\n`%s` failed: %s\n", row.name, strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
	return b.String()
}

// cpuNames are the processes in the order of the columns.
var cpuNames = []string{"nginx", "service", "Redis", "load"}

func (r *report) writeRow(b *strings.Builder, row row, all samples) {
	fmt.Fprintf(b, "\n**%s** (`%s`; %s)\n\n", row.about, row.name, plural(row.connections, "connection"))
	b.WriteString("| | requests a second, of the first | CPU µs a request: nginx | service | Redis | load | script calls a request | Redis µs in scripts | p50 µs | p99 µs | not as wanted |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range row.contestants {
		if len(all[name]) == 0 {
			continue
		}
		cells := []string{title(name), target{of: name, to: row.contestants[0], metric: throughput}.find(row, all).shown()}
		for _, process := range cpuNames {
			cells = append(cells, r.cell(all[name], "%.1f", func(s sample) float64 { return s.cpu[process] }))
		}
		cells = append(cells,
			r.cell(all[name], "%.3f", func(s sample) float64 { return s.redisCalls }),
			r.cell(all[name], "%.1f", func(s sample) float64 { return s.redisUS }),
			r.cell(all[name], "%.0f", func(s sample) float64 { return s.p50 }),
			r.cell(all[name], "%.0f", p99.of),
			r.cell(all[name], "%.2f%%", func(s sample) float64 { return 100 * s.wrong }))
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
}

// cell is a median, or nothing where there is nothing.
func (r *report) cell(all []sample, format string, of func(sample) float64) string {
	v := median(all, metric{of: of})
	if v == 0 {
		return ""
	}
	return fmt.Sprintf(format, v)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
