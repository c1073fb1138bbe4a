package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A history is what limits have said of late, for the page: requests admitted and refused in each sampleEvery of the
// last historySamples.
type history struct {
	mu     sync.Mutex
	limits map[string]*limitHistory
}

const (
	sampleEvery    = 5 * time.Second
	historySamples = 120 // ten minutes
)

// A limitHistory is of one limit, the oldest sample first.
type limitHistory struct {
	admitted, refused         [historySamples]float64 // requests
	lastAdmitted, lastRefused float64                 // what the counters said
}

// sample reads the counters. A limit that is new begins now.
func (h *history) sample(r *rules) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.limits
	h.limits = map[string]*limitHistory{}
	for _, l := range r.set.Limits() {
		c := r.of(l)
		admitted, refused := valueOf(c.admitted), valueOf(c.limited)
		one := before[l.Name]
		if one == nil {
			one = &limitHistory{lastAdmitted: admitted, lastRefused: refused}
		}
		shift(&one.admitted, admitted-one.lastAdmitted)
		shift(&one.refused, refused-one.lastRefused)
		one.lastAdmitted, one.lastRefused = admitted, refused
		h.limits[l.Name] = one
	}
}

// shift drops the oldest. A counter that has begun anew counts as none.
func shift(samples *[historySamples]float64, latest float64) {
	copy(samples[:], samples[1:])
	samples[historySamples-1] = max(0, latest)
}

func valueOf(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}

// of is a limit's history so far; zero for one that has none yet.
func (h *history) of(limit string) (one limitHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.limits[limit]; known != nil {
		one = *known
	}
	return one
}

// watch samples as long as ctx lasts.
func (h *history) watch(ctx context.Context, s *service) {
	ticks := time.NewTicker(sampleEvery)
	defer ticks.Stop()
	for {
		h.sample(s.rules.Load())
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// lastMinute is requests a second of late.
func lastMinute(samples *[historySamples]float64) float64 {
	const n = int(time.Minute / sampleEvery)
	sum := 0.0
	for _, v := range samples[historySamples-n:] {
		sum += v
	}
	return sum / time.Minute.Seconds()
}
