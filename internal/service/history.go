package service

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
	limits map[string]*LimitHistory
}

const (
	SampleEvery    = 5 * time.Second
	HistorySamples = 120 // ten minutes
)

// A LimitHistory is of one limit, the oldest sample first.
type LimitHistory struct {
	Admitted, Refused         [HistorySamples]float64 // requests
	lastAdmitted, lastRefused float64                 // what the counters said
}

// sample reads the counters. A limit that is new begins now.
func (h *history) sample(r *Rules) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.limits
	h.limits = map[string]*LimitHistory{}
	for _, l := range r.Set.Limits() {
		c := r.Of(l)
		admitted, refused := ValueOf(c.Admitted), ValueOf(c.limited)
		one := before[l.Name]
		if one == nil {
			one = &LimitHistory{lastAdmitted: admitted, lastRefused: refused}
		}
		shift(&one.Admitted, admitted-one.lastAdmitted)
		shift(&one.Refused, refused-one.lastRefused)
		one.lastAdmitted, one.lastRefused = admitted, refused
		h.limits[l.Name] = one
	}
}

// shift drops the oldest. A counter that has begun anew counts as none.
func shift(samples *[HistorySamples]float64, latest float64) {
	copy(samples[:], samples[1:])
	samples[HistorySamples-1] = max(0, latest)
}

func ValueOf(c prometheus.Counter) float64 {
	var m dto.Metric
	if c.Write(&m) != nil {
		return 0
	}
	return m.GetCounter().GetValue()
}

// Of is a limit's history so far; zero for one that has none yet.
func (h *history) Of(limit string) (one LimitHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.limits[limit]; known != nil {
		one = *known
	}
	return one
}

// watch samples as long as ctx lasts.
func (h *history) watch(ctx context.Context, s *Service) {
	ticks := time.NewTicker(SampleEvery)
	defer ticks.Stop()
	for {
		h.sample(s.Rules.Load())
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
	}
}

// LastMinute is requests a second of late.
func LastMinute(samples *[HistorySamples]float64) float64 {
	const n = int(time.Minute / SampleEvery)
	sum := 0.0
	for _, v := range samples[HistorySamples-n:] {
		sum += v
	}
	return sum / time.Minute.Seconds()
}
