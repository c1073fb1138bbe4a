package main

import (
	"fmt"
	"strings"
	"time"
)

// usual is a limit that no client reaches in a run, and that leaves its bucket less than full all the
// time: the next request finds stored state, as it does on a busy site.
var usual = rate{10_000, time.Hour}

// vast is a limit that one client with all the requests does not reach.
var vast = rate{1_000_000, time.Second}

// toml is the rate as the limits file has it.
func (r rate) toml() string {
	units := map[time.Duration]string{time.Second: "s", time.Hour: "h", 24 * time.Hour: "d"}
	return fmt.Sprintf("%d/%s", r.count, units[r.period])
}

func limitNamed(name, algorithm, rate string) string {
	return fmt.Sprintf("[limit.%s]\nkey = [\"ip\"]\nalgorithm = %q\nrate = %q\n\n", name, algorithm, rate)
}

func oneLimit(r rate) string { return limitNamed("api", "token_bucket", r.toml()) }

// fiveADay is used up at once, and has nothing to give until long after the run.
func fiveADay(rate) string { return oneLimit(rate{5, 24 * time.Hour}) }

func threeLimits(r rate) string {
	return oneLimit(r) + limitNamed("hour", "fixed_window", "100000/h") + limitNamed("day", "fixed_window", "1000000/d")
}

func threeLimitsOneSliding(r rate) string {
	return oneLimit(r) + limitNamed("hour", "fixed_window", "100000/h") + limitNamed("minute", "sliding_window", "10000/m")
}

// otherLimits are of other paths than the request's.
func otherLimits(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "[limit.service-%d]\nmatch = { path = \"/v1/service-%d/**\" }\nkey = [\"ip\", \"path\"]\n"+
			"algorithm = \"fixed_window\"\nrate = \"1000/m\"\n\n", i, i)
	}
	return text.String()
}

func tenLimits(r rate) string { return oneLimit(r) + otherLimits(9) }

// manyLimits has an override for every second client, and for many that never come.
func manyLimits(r rate) string {
	var text strings.Builder
	text.WriteString(oneLimit(r) + otherLimits(999))
	for i := range 50_000 {
		fmt.Fprintf(&text, "[override.api.%q]\nrate = \"20000/h\"\n", clientAddress(2*i))
	}
	return text.String()
}
