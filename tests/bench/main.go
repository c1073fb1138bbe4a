// Command bench measures authz side by side with what it could be replaced by, on loopback, with a
// real Redis and a real nginx, and says which of its targets are met. `make bench` runs it.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "handler" {
		if err := serveHandler(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	o := parseOptions(os.Args[1:])
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer cancel()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// bench measures all rows. One that fails is reported as such, and the others go on. One that
// is interrupted still says what it has found.
func bench(ctx context.Context, o options) error {
	s, err := newStage(ctx, o)
	if err != nil {
		return err
	}
	defer s.close()
	r := &report{machine: machineNow(s), options: o, rows: rowsFor(o), samples: map[string]samples{}, failed: map[string]error{}}
	for _, row := range r.rows {
		if !o.has(row.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "%-12s %s ", row.name, strings.Join(row.contestants, ", "))
		samples, err := s.perform(row)
		r.add(row.name, err)
		r.samples[row.name] = samples
	}
	r.find(ctx, "allocations", s.allocations)
	r.find(ctx, "bytes", s.bucketBytes)
	if o.docs != "" && ctx.Err() == nil {
		if err := r.writeDocs(o.docs); err != nil {
			return err
		}
	}
	fmt.Printf("%s\n%s", r.markdown(), r.summary())
	return ctx.Err()
}

// find adds what is no row of contestants.
func (r *report) find(ctx context.Context, name string, measure func() ([]finding, error)) {
	if !r.options.has(name) || ctx.Err() != nil {
		return
	}
	fmt.Fprintf(os.Stderr, "%-12s ", name)
	found, err := measure()
	r.add(name, err)
	r.others = append(r.others, found...)
}
