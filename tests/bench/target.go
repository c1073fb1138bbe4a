package main

import (
	"fmt"
	"slices"
)

// A metric is one number of a sample.
type metric struct {
	name string
	of   func(sample) float64
}

var (
	throughput = metric{"requests a second", func(s sample) float64 { return s.perSecond }}
	serverCPU  = metric{"server CPU a request", sample.server}
	redisCPU   = metric{"Redis CPU a check", func(s sample) float64 { return s.cpu["Redis"] }}
	p99        = metric{"p99", func(s sample) float64 { return s.p99 }}
)

// bestRival stands for the contestant of the row, other than ours and the floor, that comes off best.
const bestRival = "the best of them"

// A target is what has to be reached: of is compared with to in the same row, or is taken by itself
// when there is no to.
type target struct {
	about       string
	row, of, to string
	metric      metric
	bound       bound
}

// A bound is how much or how little it has to be.
type bound struct {
	least bool
	value float64
	unit  string // "": a ratio
}

func atLeast(v float64) bound { return bound{least: true, value: v} }
func atMost(v float64) bound  { return bound{value: v} }

func (b bound) met(v float64) bool { return v == b.value || (v > b.value) == b.least }

func (b bound) String() string {
	if b.least {
		return "≥ " + b.show(b.value)
	}
	return "≤ " + b.show(b.value)
}

func (b bound) show(v float64) string {
	if b.unit == "" {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3g %s", v, b.unit)
}

const (
	alone     = "service alone, Redis, one limit, admitted"
	nginxUnix = "through nginx, unix socket, Redis, one limit"
)

var targets = []target{
	{alone, "redis", "authz", "floor", throughput, atLeast(0.80)},
	{alone, "redis", "authz", "floor", serverCPU, atMost(1.45)},
	{"service alone, memory store", "memory", "memory", "floor", throughput, atLeast(0.93)},
	{"service alone, refused from the local cache", "memory", "refused", "floor", throughput, atLeast(0.93)},
	{nginxUnix, "nginx", "nginx-authz", "nginx-floor", throughput, atLeast(0.85)},
	{nginxUnix, "nginx", "nginx-authz", "nginx-floor", serverCPU, atMost(1.30)},
	{"three limits on one key, of one limit", "limits", "three", "authz", throughput, atLeast(0.85)},
	{"the same with a sliding window among them", "limits", "sliding", "authz", throughput, atLeast(0.75)},
	{"1,000 limits and 50,000 overrides loaded, of ten limits", "many", "many", "ten", throughput, atLeast(0.95)},
	{"under load, token bucket", "redis", "authz", "", redisCPU, bound{value: 5.5, unit: "µs"}},
	{"the same, of one EVALSHA a request (18 µs in the target)", "redis", "authz", "plain", redisCPU, atMost(5.5 / 18)},
	{"against libraries behind the same handler", "rivals", "authz", bestRival, throughput, atLeast(1.5)},
	{"the same on one hot key", "hot", "authz", bestRival, throughput, atLeast(1.5)},
	{"one connection, one request at a time", "single", "authz", "single", throughput, atLeast(0.95)},
	{"half of the rate that saturates one EVALSHA a request", "half", "authz", "plain", p99, atMost(1)},
	{"0.9 of that rate", "ninety", "authz", "plain", p99, atMost(0.5)},
}

// A finding is what came out for a target.
type finding struct {
	what      string
	bound     bound
	value     float64
	low, high float64 // the rounds by themselves
	rounds    int     // 0: not measured
}

func (f finding) met() bool { return f.rounds > 0 && f.bound.met(f.value) }

// find compares medians; the range is that of the same comparison in each round.
func (t target) find(r row, all samples) finding {
	t = t.against(r, all)
	f := finding{what: t.what(), bound: t.bound, rounds: min(len(all[t.of]), len(all[t.to]))}
	if t.to == "" {
		f.rounds = len(all[t.of])
	}
	if f.rounds == 0 {
		return f
	}
	var each []float64
	for i := range f.rounds {
		v := t.metric.of(all[t.of][i])
		if t.to != "" {
			v /= t.metric.of(all[t.to][i])
		}
		each = append(each, v)
	}
	f.value, f.low, f.high = median(all[t.of], t.metric), slices.Min(each), slices.Max(each)
	if t.to != "" {
		f.value /= median(all[t.to], t.metric)
	}
	return f
}

// against is the target with the rival's name for "the best of them": the one against which we come off
// worst.
func (t target) against(r row, all samples) target {
	if t.to != bestRival {
		return t
	}
	best, least := t, 0.0
	for _, name := range r.contestants {
		if name == t.of || name == "floor" {
			continue
		}
		rival := t
		rival.to = name
		rival.about += ", the best of them"
		if f := rival.find(r, all); f.rounds > 0 && (least == 0 || f.value < least) {
			best, least = rival, f.value
		}
	}
	return best
}

func (t target) what() string {
	if t.to == "" {
		return t.about + ": " + t.metric.name
	}
	return t.about + ": " + t.metric.name + ", of " + title(t.to)
}

// title is what the report calls a contestant.
func title(name string) string {
	if e, ok := entries[name]; ok {
		return e.title
	}
	return name
}

func median(all []sample, m metric) float64 {
	values := make([]float64, len(all))
	for i, s := range all {
		values[i] = m.of(s)
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
