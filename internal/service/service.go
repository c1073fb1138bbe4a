// Package service is the check: listen, attributes, match, decide, headers; with reload, metrics, refusal cache and outage.
package service

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/valyala/fasthttp"

	"authz/internal/monotonic"
	"authz/internal/store/redisstore"
	"authz/internal/toptalkers"
)

// Options are what a service is made of.
type Options struct {
	Log       *slog.Logger
	LostLines func() int64 // lines of the log that could not be written

	Limits []string // files and folders
	Prefix string   // of keys in Redis

	Peers         Peers         // that are believed
	IETF, Legacy  bool          // which rate-limit headers an answer has
	RetryAfterMax time.Duration // whole seconds; 0: no bound

	HeldMax       int64 // answers that leaky buckets hold at once
	RefusalsMax   int   // that are remembered
	MemoryBuckets int
	LogRefusals   bool

	Redis redisstore.Options // without a URL there is none; what it is told of is the service's to say
}

// New makes a service that knows its limits and its stores. It is to be closed.
func New(o Options) (*Service, error) {
	s := newService(o.Log)
	s.Metrics.watchTotal("authz_log_lines_lost_total", "Log lines that could not be written: they came faster than they were read, or their reader has gone.",
		func() float64 { return float64(o.LostLines()) })
	s.peers, s.heldMax = o.Peers, o.HeldMax
	s.style = headerStyle{ietf: o.IETF, legacy: o.Legacy, retryAfterMax: int64(o.RetryAfterMax / time.Second)}
	if o.LogRefusals {
		s.Refused = toptalkers.New(o.Log)
	}
	s.reloader = &reloader{service: s, prefix: o.Prefix, paths: o.Limits, log: o.Log}
	if err := s.reloader.open(); err != nil {
		return nil, err
	}
	err := s.reloader.load()
	if err == nil {
		err = s.openStores(&o)
	}
	if err != nil {
		s.reloader.files.Close()
		return nil, err
	}
	return s, nil
}

// Close ends what New began.
func (s *Service) Close() {
	s.Stores.close()
	s.reloader.files.Close()
}

// newService is a service without limits and stores.
func newService(log *slog.Logger) *Service {
	s := &Service{Metrics: newMetrics(), Log: log, outage: outage{Log: log}, Refused: toptalkers.New(nil)}
	s.requests.New = func() any { return new(request) }
	s.Metrics.watch("authz_held_answers", "Answers that leaky buckets hold, and requests that may come to that.",
		func() float64 { return float64(s.held.Load()) })
	return s
}

// Run answers until stop ends, and then ends; draining is called in between.
func (s *Service) Run(stop context.Context, draining func(), listeners []net.Listener) error {
	defer s.reloader.start(stop)()
	go s.Refused.Watch(stop)
	go s.History.watch(stop, s)
	server := s.server()
	broken := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { broken <- server.Serve(l) }() // until l is closed
	}
	s.Log.Info("serving", append([]any{"limits", len(s.Rules.Load().Set.Limits())}, s.Stores.place...)...)
	select {
	case err := <-broken:
		return fmt.Errorf("no more checks can be answered: %w", err)
	case <-stop.Done():
	}
	draining()
	s.Draining.Store(true)
	s.Log.Info("draining")
	drain(server, s.Log)
	s.Refused.End(monotonic.Now())
	return nil
}

// drain answers what is under way. Who connects and sends nothing could keep it from ending until its
// read timeout; the end comes within 5 seconds whatever they do.
func drain(server *fasthttp.Server, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	if err := server.ShutdownWithContext(ctx); err != nil {
		log.Warn("connections closed that had not ended", "error", err.Error())
	}
	log.Info("stopped")
}
